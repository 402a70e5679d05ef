"""The graph protocol of this package, and validated access to edges, attributes and batches."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_same_device, check_shape, check_tensor, check_whole

# 2^22 edges: temporaries of 32 MB each, so that 10^8 edges need little more memory than input and output.
_EDGES_PER_CHUNK = 1 << 22


class GraphLike(Protocol):
    """Anything with ``edge_index`` (2, E) and ``num_nodes``, such as ``torch_geometric.data.Data``.

    ``x``, ``edge_attr`` and other attributes are needed only by the functions that read them. ``batch`` (N,) holds the
    index of the graph of each node; if it is missing or None, all nodes are one graph.
    """

    @property
    def edge_index(self) -> Tensor | None:
        """Source and target node of each edge, (2, E)."""

    @property
    def num_nodes(self) -> int | None:
        """Number of nodes N."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph of plain tensors, for use without ``torch_geometric.data.Data``.

    Shapes: ``edge_index`` (2, E), ``x`` (N, F), ``edge_attr`` (E,) or (E, D), ``batch`` (N,)

    >>> Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3).num_nodes
    3
    """

    edge_index: Tensor
    num_nodes: int
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    batch: Tensor | None = None


def num_nodes_of(graph: GraphLike) -> int:
    """Number of nodes of ``graph``, checked to be a whole number that is not negative."""
    check_whole("num_nodes", graph.num_nodes)
    return operator.index(graph.num_nodes)  # type: ignore[arg-type]  # checked above


def edges_of(graph: GraphLike) -> Tensor:
    """Edges of ``graph`` as a long tensor (2, E), checked to name existing nodes."""
    if not hasattr(graph, "edge_index"):
        raise TypeError(f"`graph` must have `edge_index` and `num_nodes`, got {type(graph).__name__}")
    edge_index = graph.edge_index
    check_tensor("edge_index", edge_index)
    assert edge_index is not None  # for the type checker: the check above raises on None
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes_of(graph))
    return edge_index.long()


def attribute_of(graph: GraphLike, name: str, what: str) -> Tensor:
    """Attribute ``name`` of ``graph``, on the device of its edges; ``what`` describes it in the error message."""
    value = getattr(graph, name, None)
    if value is None:
        there = "".join(f", but with {each}" for each in [", ".join(getattr(graph, "edge_names", None) or ())] if each)
        raise ValueError(f"the graph must have an attribute `{name}` with {what}, got a graph without it{there}")
    check_tensor(name, value)
    tensor: Tensor = value
    check_same_device(name, tensor, "edge_index", edges_of(graph))
    return tensor


def edge_chunks(edge_index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (source, target) of consecutive chunks of edges, as views."""
    for chunk in torch.split(edge_index, _EDGES_PER_CHUNK, dim=1):
        yield chunk[0], chunk[1]


def incoming_sum(values: Tensor, edge_index: Tensor) -> Tensor:
    """For every node, the sum of the source values over its incoming edges, (N,) -> (N,)."""
    total = torch.zeros_like(values)
    for source, target in edge_chunks(edge_index):
        total.index_add_(0, target, values.index_select(0, source))
    return total


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Neighbour lists of all nodes: those of node v are ``neighbor[start[v]:start[v + 1]]``."""

    start: Tensor
    neighbor: Tensor

    @classmethod
    def from_edges(cls, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Lists, for every node, the nodes that its edges lead to, once per edge."""
        source, order = edge_index[0].sort()
        start = source.new_zeros(num_nodes + 1)
        torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=start[1:])
        return cls(start, edge_index[1].index_select(0, order))

    def lists(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The concatenated lists of ``nodes``: (position in ``nodes``, neighbour), in time linear in their length."""
        first = self.start[nodes]
        length = self.start[nodes + 1] - first
        end, total = length.cumsum(0), int(length.sum())
        # The list of a position is the number of lists that end at or before it. `repeat_interleave` gives the same but
        # starts all threads even for two short lists: 20 times slower on busy cores, and a search has many such rounds.
        owner = torch.bincount(end, minlength=total + 1)[:total].cumsum(0)
        place = torch.arange(total, device=nodes.device) + (first - end + length)[owner]
        return owner, self.neighbor[place]


def simple_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The simple undirected graph: each adjacent pair of distinct nodes once, as (smaller, larger), sorted: (2, M)."""
    if num_nodes == 0:
        return edge_index
    low, high = edge_index.amin(0), edge_index.amax(0)
    pair = torch.unique((low * num_nodes + high)[low != high])
    return torch.stack([pair.div(num_nodes, rounding_mode="floor"), pair % num_nodes])


@dataclass(frozen=True, eq=False)
class Parts:
    """The graphs of a batch: node i belongs to graph ``number[i]`` in [0, count)."""

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
