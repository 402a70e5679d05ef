"""What every layer does with its arguments: a graph in either form, one or two sets of nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import overload

import torch
from torch import Tensor

from graphprism._checks import check_positive
from graphprism.ops import RelationalAdj, TableAdj

Nodes = Tensor | tuple[Tensor, Tensor]
Prepared = RelationalAdj | TableAdj


def split_nodes(x: Nodes) -> tuple[Tensor, Tensor]:
    """Features of senders and of receivers; the same tensor twice unless the graph is bipartite."""
    return (x, x) if isinstance(x, Tensor) else (x[0], x[1])


@overload
def to_adj(
    x: Nodes,
    edge_index: Tensor | RelationalAdj,
    edge_type: Tensor | None,
    edge_weight: Tensor | None,
    num_relations: int,
) -> RelationalAdj: ...


@overload
def to_adj(
    x: Nodes,
    edge_index: Tensor | Prepared,
    edge_type: Tensor | None,
    edge_weight: Tensor | None,
    num_relations: int,
) -> Prepared: ...


def to_adj(
    x: Nodes,
    edge_index: Tensor | Prepared,
    edge_type: Tensor | None,
    edge_weight: Tensor | None,
    num_relations: int,
) -> Prepared:
    """The prepared graph as it is, or one made of tensors, with its values checked."""
    x_src, x_dst = split_nodes(x)
    size = (x_src.size(-2), x_dst.size(-2))
    if isinstance(edge_index, RelationalAdj | TableAdj):
        if edge_type is not None or edge_weight is not None:
            raise ValueError("`edge_type` and `edge_weight` must be None with a `RelationalAdj`, which holds its own")
        if edge_index.num_relations != num_relations:
            raise ValueError(f"`adj` must have {num_relations} relations, got {edge_index.num_relations}")
        if edge_index.size != size:
            raise ValueError(f"`adj` must join {size[0]} to {size[1]} nodes as `x` does, got {edge_index.size}")
        return edge_index
    if edge_type is None and num_relations > 1:
        raise ValueError(
            f"`edge_type` must be given for {num_relations} relations, got None; the transform `SplitEdges` writes it"
        )
    return RelationalAdj(edge_index, edge_type, edge_weight, num_relations=num_relations, num_nodes=size)


def check_edge_attr(edge_attr: Tensor | None, wanted: bool) -> None:
    """Raises unless edge features come exactly where the layer was made for them."""
    if (edge_attr is not None) != wanted:
        must, came = ("given when `edge_dim` is set", "None") if wanted else ("None", "a tensor")
        raise ValueError(f"`edge_attr` must be {must}, got {came}")


def one_for_each_relation(
    name: str, factory: Callable[[], torch.nn.Module], num_relations: int, share_init: bool
) -> torch.nn.ModuleList:
    """As many modules as relations, from one factory; with ``share_init`` all start as the first does."""
    check_positive("num_relations", num_relations)
    if isinstance(factory, torch.nn.Module):
        raise TypeError(f"`{name}` must be a function that makes a module, one for every relation, got a module")
    first = factory()
    others = (copy.deepcopy(first) if share_init else factory() for _ in range(num_relations - 1))
    return torch.nn.ModuleList([first, *others])


def zeros_parameter(channels: int, wanted: bool) -> torch.nn.Parameter | None:
    """A bias that starts at zero."""
    return torch.nn.Parameter(torch.zeros(channels)) if wanted else None
