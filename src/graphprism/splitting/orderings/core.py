"""Order by k-core number."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.splitting.adjacency import Adjacency, simple_edges
from graphprism.splitting.graph import GraphLike, edges_of, num_nodes_of


def core(graph: GraphLike) -> Tensor:
    """Core number of each node: the largest k such that it is in a subgraph where all degrees are at least k.

    Of the simple undirected graph: directions, loops and repeated edges do not count. Nodes of too small a degree are
    removed in rounds, and each round looks only at the neighbours of the nodes that go: every edge is handled once.
    Shapes: (N,) long
    """
    num_nodes = num_nodes_of(graph)
    edges = simple_edges(edges_of(graph), num_nodes)
    adjacency = Adjacency.from_edges(torch.cat([edges, edges.flip(0)], dim=1), num_nodes)
    degree = adjacency.start.diff()
    number = torch.full_like(degree, -1)  # -1: not removed yet
    left = torch.arange(num_nodes, device=edges.device)
    while left.numel():
        # The nodes left at level k number at most those of core number k or more: all levels together, O(E).
        level = int(degree[left].min())
        _peel(adjacency, degree, number, left[degree[left] == level], level)
        left = left[number[left] < 0]
    return number


def _peel(adjacency: Adjacency, degree: Tensor, number: Tensor, leaving: Tensor, level: int) -> None:
    """Removes the nodes ``leaving``, and all that fall to ``level`` by it; writes into ``degree`` and ``number``."""
    while leaving.numel():
        number[leaving] = level
        _, reached = adjacency.lists(leaving)
        reached = reached[number[reached] < 0]
        degree.index_add_(0, reached, torch.full_like(reached, -1))
        leaving = torch.unique(reached[degree[reached] <= level])
