"""Molecule-like graphs: trees with rings in which no atom has more than four neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_positive, check_whole
from graphprism.datasets.molecules import RING_SIZES, grow
from graphprism.splitting import Graph


def molecule(seed: int, num_nodes: int = 23) -> Graph:
    """One connected graph of about the shape of a ZINC molecule, undirected, with a type in [0, 28) as ``x`` (N, 1).

    Rings of five and six atoms and single atoms are attached to random atoms that have fewer than three neighbours,
    until ``num_nodes`` is reached.
    """
    check_whole("seed", seed)
    check_positive("num_nodes", num_nodes)
    generator = torch.Generator().manual_seed(seed)

    def draw(stop: int) -> int:
        return int(torch.randint(stop, (), generator=generator))

    def attach(degree: list[int]) -> tuple[int, int]:
        free = [atom for atom, count in enumerate(degree) if count < 3]
        anchor = free[draw(len(free))]
        return anchor, RING_SIZES[draw(4)] if draw(4) == 0 else 1

    bonds = grow(num_nodes, attach)
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
