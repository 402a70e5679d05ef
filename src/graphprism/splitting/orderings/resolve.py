"""From a name, a tensor or a function to an ordering, and from an ordering to checked values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_no_nan, check_same_device, check_shape, check_tensor
from graphprism.splitting.graph import GraphLike, edges_of, num_nodes_of
from graphprism.splitting.orderings.bfs import bfs
from graphprism.splitting.orderings.core import core
from graphprism.splitting.orderings.degree import degree
from graphprism.splitting.orderings.eigenvector import eigenvector
from graphprism.splitting.orderings.features import features
from graphprism.splitting.orderings.ppr import ppr
from graphprism.splitting.orderings.random import random
from graphprism.splitting.orderings.triangles import triangles

Ordering: TypeAlias = Callable[[GraphLike], Tensor]

ORDERINGS: dict[str, Callable[..., Tensor]] = {
    "degree": degree,
    "random": random,
    "features": features,
    "ppr": ppr,
    "core": core,
    "triangles": triangles,
    "eigenvector": eigenvector,
    "bfs": bfs,
}


@dataclass(frozen=True, eq=False)
class FixedOrder:
    """An ordering that gives the same ``values`` (N,) for every graph."""

    values: Tensor

    def __call__(self, graph: GraphLike) -> Tensor:
        """The values, whatever the graph."""
        return self.values

    def __repr__(self) -> str:
        return f"<order of {self.values.numel()} nodes>"


def resolve_ordering(ordering: str | Tensor | Ordering) -> Ordering:
    """The function for a name of ``ORDERINGS``, a tensor of one value per node, or any function of a graph."""
    if isinstance(ordering, str):
        if ordering not in ORDERINGS:
            raise ValueError(f"`ordering` must be one of {sorted(ORDERINGS)}, a tensor or a function, got {ordering!r}")
        return ORDERINGS[ordering]
    if isinstance(ordering, Tensor):
        return FixedOrder(ordering)
    if not callable(ordering):
        raise TypeError(f"`ordering` must be a name, a tensor or a function of a graph, got {type(ordering).__name__}")
    return ordering


def order_values(ordering: str | Tensor | Ordering, graph: GraphLike) -> Tensor:
    """Values of an ordering on ``graph``, (N,), checked to be one number per node without NaN."""
    values = resolve_ordering(ordering)(graph)
    check_tensor("order", values)
    check_shape("order", values, [num_nodes_of(graph)])
    check_same_device("order", values, "edge_index", edges_of(graph))
    if not values.is_floating_point():
        values = values.int() if values.dtype == torch.bool else values
        check_integer("order", values)
    check_no_nan("order", values)
    return values
