"""What a graph is here, and the checked way to read one."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_same_device, check_shape, check_tensor

# 2^22 edges: temporaries of 32 MB a piece, so that 10^8 edges need little more than their input and their result.
_EDGES_PER_CHUNK = 1 << 22


class GraphLike(Protocol):
    """Anything with ``edge_index`` (2, E) and ``num_nodes``, such as ``torch_geometric.data.Data``.

    ``x``, ``edge_attr`` and other attributes are read where a function needs them. ``batch`` (N,) holds the number of
    the graph that each node belongs to; without it (or with None) all nodes are one graph.
    """

    @property
    def edge_index(self) -> Tensor | None:
        """Numbers of the nodes that each edge leaves and enters, (2, E)."""

    @property
    def num_nodes(self) -> int | None:
        """Number of nodes N."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph of bare tensors, for those who have no ``torch_geometric.data.Data``.

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
    value = graph.num_nodes
    try:
        count = operator.index(value)  # type: ignore[arg-type]  # a number of any integer type, or the error below
    except TypeError:
        raise TypeError(f"`num_nodes` must be an integer, got {type(value).__name__}") from None
    if count < 0:
        raise ValueError(f"`num_nodes` must be at least 0, got {count}")
    return count


def edges_of(graph: GraphLike) -> Tensor:
    """Edges of ``graph`` as a long tensor (2, E), checked to name existing nodes."""
    edge_index = graph.edge_index
    check_tensor("edge_index", edge_index)
    assert edge_index is not None  # for the type checker: the line above has raised
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes_of(graph))
    return edge_index.long()


def attribute_of(graph: GraphLike, name: str, what: str) -> Tensor:
    """Attribute ``name`` of ``graph`` on the device of its edges; ``what`` says in the error what it should hold."""
    value = getattr(graph, name, None)
    if value is None:
        raise ValueError(f"the graph must have an attribute `{name}` with {what}, got a graph without it")
    check_tensor(name, value)
    tensor: Tensor = value
    check_same_device(name, tensor, "edge_index", edges_of(graph))
    return tensor


def edge_chunks(edge_index: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (source, target) of consecutive runs of edges, as views."""
    for chunk in torch.split(edge_index, _EDGES_PER_CHUNK, dim=1):
        yield chunk[0], chunk[1]


def incoming_sum(values: Tensor, edge_index: Tensor) -> Tensor:
    """Sum over the edges that enter each node of the value at their source, (N,) -> (N,)."""
    total = torch.zeros_like(values)
    for source, target in edge_chunks(edge_index):
        total.index_add_(0, target, values.index_select(0, source))
    return total
