"""Arguments of every layer: a prepared graph or tensors, one or two sets of nodes."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from graphprism.ops import PreparedGraph, RelationalAdj

Nodes = Tensor | tuple[Tensor, Tensor]
Prepared = PreparedGraph


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
    if not isinstance(edge_index, Tensor):
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


def zeros_parameter(channels: int, wanted: bool) -> torch.nn.Parameter | None:
    """A bias that starts at zero."""
    return torch.nn.Parameter(torch.zeros(channels)) if wanted else None


def is_watched(layer: torch.nn.Module) -> bool:
    """Whether someone hooked ``layer`` to see its input, output or gradients, which a part of it would not show.

    >>> layer = torch.nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> is_watched(layer), handle.remove(), is_watched(layer)
    (True, None, False)
    """
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(hooks)


def batch_norm(module: torch.nn.BatchNorm1d, x: Tensor, counts: Tensor | None = None) -> Tensor:
    """``module(x)`` with statistics of the rows where ``counts`` is not zero; all rows are normalised.

    Statistics are in float32 at least. Where no row counts, the running ones stay as they are; nothing is asked of the
    device.

    Shapes: ``x`` (N, F), ``counts`` (N,) -> (N, F)
    """
    if counts is None:
        out: Tensor = module(x)
        return out
    wide = x if x.dtype == torch.float64 else x.float()
    mean, variance = module.running_mean, module.running_var
    if module.training or mean is None or variance is None:
        mean, variance = _measure(module, wide, (counts != 0).to(wide.dtype)[:, None])
    out = (wide - mean) * (variance + module.eps).rsqrt()
    return (out * module.weight + module.bias if module.affine else out).to(x.dtype)


def _measure(module: torch.nn.BatchNorm1d, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the chosen rows, of which running statistics take note."""
    number = chosen.sum()
    mean = (chosen * x).sum(dim=0) / number.clamp(min=1)
    square = (chosen * (x - mean).square()).sum(dim=0)
    _update(module, mean.detach(), (square / (number - 1).clamp(min=1)).detach(), number != 0)
    return mean, square / number.clamp(min=1)


def _update(module: torch.nn.BatchNorm1d, mean: Tensor, variance: Tensor, any_row: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(any_row)
    share = 1 / module.num_batches_tracked.clamp(min=1) if module.momentum is None else module.momentum
    share = share * any_row
    module.running_mean.mul_(1 - share).add_(share * mean)
    module.running_var.mul_(1 - share).add_(share * variance)
