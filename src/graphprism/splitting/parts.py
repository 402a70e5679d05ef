"""The graphs of a batch, seen from their nodes, so that a batch gives what its parts give."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_same_device, check_shape
from graphprism.splitting.graph import GraphLike, edge_chunks, edges_of, num_nodes_of


@dataclass(frozen=True, eq=False)
class Parts:
    """Which of ``count`` graphs each node belongs to: ``number`` (N,) in [0, count)."""

    number: Tensor
    count: int

    def maximum(self, values: Tensor) -> Tensor:
        """Largest of the non-negative ``values`` (N,) within the graph of each node, (N,)."""
        largest = values.new_zeros(self.count).scatter_reduce(0, self.number, values, "amax")
        return largest.index_select(0, self.number)

    def sizes(self) -> Tensor:
        """Number of nodes of the graph of each node, (N,)."""
        return torch.bincount(self.number, minlength=self.count).index_select(0, self.number)

    def rank(self, values: Tensor) -> Tensor:
        """Position of each node, from 0, among the nodes of its graph sorted by ``values``; equal ones by number."""
        by_value = values.argsort(stable=True)
        order = by_value[self.number[by_value].argsort(stable=True)]
        sizes = torch.bincount(self.number, minlength=self.count)
        first = sizes.cumsum(0) - sizes  # (count,) position of the first node of each graph
        position = torch.arange(order.numel(), device=order.device)
        return torch.empty_like(order).index_copy_(0, order, position - first[self.number[order]])

    def local(self) -> Tensor:
        """Number of each node within its own graph, (N,)."""
        return self.rank(torch.zeros_like(self.number))


def parts_of(graph: GraphLike) -> Parts:
    """The graphs of a batch; a graph without ``batch`` is one part.

    The numbers in ``batch`` are labels: they need be neither sorted nor consecutive, but no edge joins two of them.
    """
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    batch: Tensor | None = getattr(graph, "batch", None)
    if batch is None:
        return Parts(edge_index.new_zeros(num_nodes), 1)
    check_shape("batch", batch, [num_nodes])
    check_integer("batch", batch)
    check_same_device("batch", batch, "edge_index", edge_index)
    labels, number = torch.unique(batch, return_inverse=True)
    _check_no_edge_between_parts(edge_index, number)
    return Parts(number, labels.numel())


def _check_no_edge_between_parts(edge_index: Tensor, number: Tensor) -> None:
    for source, target in edge_chunks(edge_index):
        apart = number[source] != number[target]
        if bool(apart.any()):
            a, b = int(source[apart][0]), int(target[apart][0])
            raise ValueError(f"every edge must join two nodes of one graph of the batch, got an edge from {a} to {b}")
