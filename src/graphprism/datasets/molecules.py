"""Generated molecule-like graphs, with a target that depends on more than one hop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch

from graphprism._checks import check_positive, check_whole
from graphprism.datasets.packed_dataset import PackedDataset
from graphprism.packed import Array

# Graphs per block of dense matrices: 512 graphs of 37 atoms take 3 MB in float32.
_CHUNK = 512
# Mean and deviation over the 12,000 graphs of seed 0, to standardise targets.
_MEAN, _DEVIATION = -0.64, 4.7


def molecule_target(types: Array, edge_index: Array, node_ptr: Array, edge_ptr: Array) -> Array:
    r"""One target per graph, from rings, branching and types two bonds apart: (ΣN,), (2, ΣE), (G + 1,) twice -> (G,).

    .. math:: y = \sum_i s_i (r^6_i - r^5_i) + \sum_{i, j} s_i P_{ij} s_j - |B|

    where :math:`r^k_i` is the number of rings of :math:`k` atoms through atom :math:`i`, :math:`P_{ij}` the number of
    paths of two bonds from :math:`i` to :math:`j`, :math:`B` the bonds between atoms of three or more neighbours and
    :math:`s_i = \cos(2 t_i + 2)` a number for type :math:`t_i`; then shifted and scaled by constants. Rings are
    counted by non-backtracking walks, which is exact in graphs without rings of three or four atoms.
    """
    raw = [
        _chunk_target(types, edge_index, node_ptr[start : start + _CHUNK + 1], edge_ptr[start : start + _CHUNK + 1])
        for start in range(0, node_ptr.size - 1, _CHUNK)
    ]
    return ((np.concatenate(raw) - _MEAN) / _DEVIATION).astype(np.float32)


def _chunk_target(types: Array, edge_index: Array, node_ptr: Array, edge_ptr: Array) -> Array:
    sizes = np.diff(node_ptr)
    graph = np.repeat(np.arange(sizes.size), sizes)
    t = types[node_ptr[0] : node_ptr[-1]].astype(np.int64)
    score = np.zeros((sizes.size, sizes.max()))
    score[graph, np.arange(graph.size) - (node_ptr[:-1] - node_ptr[0])[graph]] = np.cos(2 * t + 2)
    adj = np.zeros((sizes.size, sizes.max(), sizes.max()), np.float32)
    source, target = edge_index[:, edge_ptr[0] : edge_ptr[-1]]
    adj[np.repeat(np.arange(sizes.size), np.diff(edge_ptr)), source, target] = 1
    degree = adj.sum(axis=2)
    paths, fives, sixes = _walks(adj, degree)
    branching = ((degree >= 3)[:, :, None] * adj * (degree >= 3)[:, None, :]).sum(axis=(1, 2)) / 2
    two_apart = (score * (paths @ score[:, :, None])[:, :, 0]).sum(axis=1)
    total: Array = (score * (sixes - fives)).sum(axis=1) + two_apart - branching
    return total


def _walks(adj: Array, degree: Array) -> tuple[Array, Array, Array]:
    """Paths of two bonds (G, N, N), and rings of five and of six atoms through each atom, (G, N) and (G, N).

    Non-backtracking walks of k bonds: A_1 = A, A_2 = A A - D, A_k+1 = A_k A - A_k-1 (D - 1). Closed ones go around a
    ring, in either direction.
    """
    one = adj
    two = one @ adj
    diagonal = np.arange(adj.shape[1])
    two[:, diagonal, diagonal] -= degree
    walks = [one, two]
    while len(walks) < 6:
        walks.append(walks[-1] @ adj - walks[-2] * np.maximum(degree - 1, 0)[:, None, :])
    fives, sixes = (walk[:, diagonal, diagonal] / 2 for walk in walks[4:])
    return two, fives, sixes


NUM_ATOM_TYPES = 28
# Valence of each atom type; the most common ones resemble C, O, N and F.
VALENCE = np.resize([4, 2, 3, 1], NUM_ATOM_TYPES)
_SHARE = np.concatenate([[0.7, 0.1, 0.1, 0.02], 0.08 * 0.6 ** np.arange(1, NUM_ATOM_TYPES - 3)])
# Heavy atoms of ZINC's molecules: mean, deviation, least, most.
_SIZE = (23.2, 4.5, 9, 37)
_RING_CHANCE = 0.3
_FOURTH_CHANCE = 0.05
RING_SIZES = (5, 6, 6, 6)


def molecules(num_graphs: int = 12_000, seed: int = 0) -> PackedDataset:
    """Connected graphs shaped like ZINC's molecules: trees of atoms and rings of five and six.

    Atoms have a type in [0, 28) with a valence of at most four, which their bonds respect; bonds have a type in
    {1, 2, 3}, their order. The target is `molecule_target`. Of every twelve graphs ten are for training, one for
    validation and one for test. The same seed gives the same graphs: a smaller set is a prefix of a larger one.

    >>> dataset = molecules(12, seed=1)
    >>> [dataset.subset(name).numel() for name in ("train", "val", "test")]
    [10, 1, 1]
    """
    check_positive("num_graphs", num_graphs)
    check_whole("seed", seed)
    made = [_molecule(np.random.default_rng([seed, number])) for number in range(num_graphs)]
    node_ptr = _pointer([types.size for types, _, _ in made])
    edge_ptr = _pointer([order.size for _, _, order in made])
    x = np.concatenate([types for types, _, _ in made]).astype(np.uint8)[:, None]
    edge_index = np.concatenate([bonds for _, bonds, _ in made], axis=1).astype(np.uint8)
    return PackedDataset(
        name="molecules",
        level="graph",
        task="regression",
        metric="mae",
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(edge_index),
        edge_attr=torch.from_numpy(np.concatenate([order for _, _, order in made]).astype(np.uint8)[:, None]),
        y=torch.from_numpy(molecule_target(x[:, 0], edge_index, node_ptr, edge_ptr)[:, None]),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        split=torch.tensor([0] * 10 + [1, 2], dtype=torch.uint8).repeat(num_graphs // 12 + 1)[:num_graphs],
        node_types=(NUM_ATOM_TYPES,),
        edge_types=(4,),
        note="Generated: for trying things out, not a benchmark.",
    )


def _molecule(random: np.random.Generator) -> tuple[Array, Array, Array]:
    """Types (N,), bonds in both directions (2, E) and their order (E,)."""
    mean, deviation, least, most = _SIZE
    size = int(np.clip(np.rint(random.normal(mean, deviation)), least, most))
    bonds = _skeleton(size, random.random((size, 4)))
    order, used = _bond_orders(bonds, size, random.random((bonds.shape[1], 2)))
    fits = used[:, None] <= VALENCE  # (N, types)
    chance = np.cumsum(fits * _SHARE, axis=1)
    types = (chance < random.random(size)[:, None] * chance[:, -1:]).sum(axis=1)
    return types, np.concatenate([bonds, bonds[::-1]], axis=1), np.concatenate([order, order])


def grow(size: int, attach: Callable[[list[int]], tuple[int, int]]) -> list[tuple[int, int]]:
    """Bonds of a connected graph of ``size`` atoms, grown by attaching single atoms and rings.

    Args:
        size: Number of atoms.
        attach: Given the degrees of all atoms so far, returns the atom to attach to and the length of the attached
            chain, which is closed to a ring from five atoms on. The last chain is cut at ``size``.

    >>> grow(7, lambda degree: (len(degree) - 1, 5))
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (5, 6)]
    """
    bonds: list[tuple[int, int]] = []
    degree = [0]
    while (first := len(degree)) < size:
        anchor, length = attach(degree)
        last = min(first + length, size) - 1
        bonds += [(anchor, first), *pairwise(range(first, last + 1))]
        degree[anchor] += 1
        if is_ring := last - first + 1 >= RING_SIZES[0]:
            bonds.append((first, last))
        degree += [1] if first == last else [2 + is_ring] + [2] * (last - first - 1) + [1 + is_ring]
    return bonds


def _skeleton(size: int, draws: Array) -> Array:
    """Bonds (2, B): attaches to atoms with free valence, preferably late ones; a ring that would be cut is one atom."""
    rows = iter(draws.tolist())

    def attach(degree: list[int]) -> tuple[int, int]:
        where, what, ring, fourth = next(rows)
        most = 4 if fourth < _FOURTH_CHANCE else 3
        free = [atom for atom, count in enumerate(degree) if count < most]
        length = RING_SIZES[int(ring * len(RING_SIZES))] if what < _RING_CHANCE else 1
        return free[int(where**0.5 * len(free))], length if len(degree) + length <= size else 1

    return np.array(grow(size, attach)).T


def _bond_orders(bonds: Array, size: int, draws: Array) -> tuple[Array, Array]:
    """Order of each bond, and the valence used at each atom, at most four.

    A bond is double if its random number is the lowest among the bonds of both atoms, so that no atom has two double
    bonds; it is sometimes triple if both atoms have at most one other bond.
    """
    lowest = np.ones(size)
    np.minimum.at(lowest, bonds.ravel(), np.tile(draws[:, 0], 2))
    degree = np.bincount(bonds.ravel(), minlength=size)
    chosen = (lowest[bonds] == draws[:, 0]).all(axis=0)
    order = 1 + (chosen & (degree[bonds] <= 3).all(axis=0))
    order += (order == 2) & (degree[bonds] <= 2).all(axis=0) & (draws[:, 1] < 0.05)
    return order, np.bincount(bonds.ravel(), np.tile(order, 2), minlength=size).astype(np.int64)


def _pointer(sizes: list[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])
