"""Order by a random permutation."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike, edge_chunks, edges_of
from graphprism.splitting.parts import Parts, parts_of


def random(graph: GraphLike, seed: int = 0) -> Tensor:
    """A random permutation of 0..n-1 of the n nodes of each graph.

    The permutation is a function of ``seed``, of n and of the edges of the graph: the same alone and in a batch, on
    every machine and in every call, and another one for another graph. No random-number generator is touched. Unlike
    all other orderings it depends on the numbering of the nodes (not on that of the edges). Shapes: (N,) long
    """
    parts = parts_of(graph)
    local = parts.local()
    key = _graph_keys(edges_of(graph), parts, local, seed).index_select(0, parts.number)
    # For one key this is a bijection of the node number, so no two nodes of a graph have the same value.
    return parts.rank(_mix(key ^ _mix(local)))


def _graph_keys(edge_index: Tensor, parts: Parts, local: Tensor, seed: int) -> Tensor:
    """One key per graph, (count,): edges are summed, so that their order does not matter."""
    edges = edge_index.new_zeros(parts.count)
    for source, target in edge_chunks(edge_index):
        edges.index_add_(0, parts.number[source], _mix(_mix(local[source]) + local[target]))
    size = torch.bincount(parts.number, minlength=parts.count)
    return _mix(edges + _mix(size + _mix(size.new_tensor(_signed(seed)))))


def _mix(x: Tensor) -> Tensor:
    """A bijection of the 64-bit numbers that spreads every bit over all (the splitmix64 finaliser); products wrap."""
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift: the mask removes the copies of the sign bit."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    """The signed 64-bit number with the lowest 64 bits of ``x``."""
    return ((x + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
