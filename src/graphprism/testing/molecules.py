"""Molecule-like graphs: trees with rings in which no atom has more than four neighbours."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from graphprism.splitting import Graph

_RING_SIZES = (5, 6, 6, 6)


def molecule(seed: int, num_nodes: int = 23) -> Graph:
    """One connected graph of about the shape of a ZINC molecule, undirected, with a type in [0, 28) as ``x`` (N, 1).

    Rings of five and six atoms and single atoms are attached to random atoms that have fewer than three neighbours,
    until ``num_nodes`` is reached.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:
        return int(torch.randint(stop, (), generator=generator))

    bonds: list[tuple[int, int]] = []
    degree = [0]
    while len(degree) < num_nodes:
        open_atoms = [atom for atom, count in enumerate(degree) if count < 3]
        anchor = open_atoms[draw(len(open_atoms))]
        size = _RING_SIZES[draw(4)] if draw(4) == 0 else 1
        new = list(range(len(degree), min(len(degree) + size, num_nodes)))
        added = [(anchor, new[0]), *pairwise(new)]
        if len(new) >= 5:
            added.append((new[-1], new[0]))
        degree += [0] * len(new)
        for a, b in added:
            degree[a] += 1
            degree[b] += 1
        bonds += added
    types = torch.multinomial(0.6 ** torch.arange(28.0), num_nodes, replacement=True, generator=generator)
    return Graph(_both_directions(bonds), num_nodes, x=types[:, None])


def molecules(count: int, seed: int = 0) -> list[Graph]:
    """``count`` molecules of 12 to 34 atoms."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(12, 35, (count,), generator=generator).tolist()
    return [molecule(seed * 1_000_003 + number, size) for number, size in enumerate(sizes)]


def _both_directions(bonds: list[tuple[int, int]]) -> Tensor:
    if not bonds:
        return torch.empty(2, 0, dtype=torch.long)
    one_way = torch.tensor(bonds).t()
    return torch.cat([one_way, one_way.flip(0)], dim=1)
