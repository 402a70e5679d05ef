"""Checks and conversion of the arguments of layers: a prepared graph or tensors, one or two sets of nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex, overload

import torch
from torch import Tensor
from torch_geometric.nn import MLP, Aggregation
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.resolver import aggregation_resolver
from torch_geometric.utils import to_edge_index

from graphprism._checks import (
    FLOATS,
    check_channels,
    check_dense,
    check_dtype,
    check_floating,
    check_function,
    check_same_device,
    check_shape,
)
from graphprism.ops import PreparedGraph, RelationalAdj
from graphprism.ops.batched.batch_norm import run_batch_norm
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.vmap import only_vmap
from graphprism.ops.recent_graphs import RECENT_GRAPHS

Nodes = Tensor | tuple[Tensor, Tensor]
Prepared = PreparedGraph


def split_nodes(x: Nodes) -> tuple[Tensor, Tensor]:
    """Features of senders and of receivers; the same tensor twice unless the graph is bipartite."""
    if isinstance(x, Tensor):
        return x, x
    _check_pair(x)
    return x[0], x[1]


def _check_pair(x: object) -> None:
    if not (isinstance(x, tuple | list) and len(x) == 2 and isinstance(x[0], Tensor) and isinstance(x[1], Tensor)):
        parts = f" of {', '.join(type(each).__name__ for each in x[:4])}" if isinstance(x, tuple | list) else ""
        raise TypeError(f"`x` must be a torch.Tensor or a pair of them, got {type(x).__name__}{parts}")


def check_features(x: Nodes, *maps: torch.nn.Module | None, leading: bool = False, sparse: bool = False) -> None:
    """Raises unless rows of ``x`` fit the linear maps of senders and, if there are two, of receivers.

    Checks shapes, dtypes and devices only, in about a microsecond. A lazy map, or an unknown one (`None`), fits every
    input.

    Args:
        x: node features that passed `to_adj`.
        maps: modules with ``weight`` and ``in_channels`` (or ``in_features``).
        leading: whether a leading batch dimension is allowed.
        sparse: whether features may be a sparse CSR tensor.
    """
    tensors = split_nodes(x)
    for end, module in enumerate(maps):
        tensor = tensors[end]
        if tensor.layout != torch.strided:
            check_dense(_name(x, end), tensor, or_csr=sparse)
        if tensor.dim() != 2 and not leading:
            check_shape(_name(x, end), tensor, ["N", "F"])
        channels: Any = 0 if module is None else getattr(module, "in_channels", None) or module.in_features
        if channels < 1:
            continue
        weight: Any = module.common if getattr(module, "is_held", False) else module.weight  # type: ignore[union-attr]
        if tensor.size(-1) != channels:
            check_channels(_name(x, end), tensor, channels)
        if tensor.dtype != weight.dtype:
            check_dtype(_name(x, end), tensor, weight.dtype, "the weights of the layer")
        if tensor.device != weight.device:
            check_same_device(_name(x, end), tensor, "the weights of the layer", weight)


def _name(x: Nodes, end: int) -> str:
    return "x" if isinstance(x, Tensor) else f"x[{end}]"


def input_map(network: torch.nn.Module) -> torch.nn.Module | None:
    """The linear map that is applied first in a network, if the network is of a known class; else `None`."""
    if isinstance(network, MLP):
        return input_map(network.lins[0]) if len(network.lins) else None
    if isinstance(network, torch.nn.Sequential):
        return input_map(network[0]) if len(network) else None
    # a tuple: torch 2.6 cannot compile `isinstance` with a union
    return network if isinstance(network, (torch.nn.Linear, Linear)) else None


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
    """The prepared graph unchanged, or one made of tensors, without a host-device sync.

    Layers that are called with the same tensors share one graph, see `RecentGraphs`.

    Indices out of range raise on the CPU and fail a device-side assertion on CUDA, see `RelationalAdj.in_forward`. A
    sparse tensor is PyG's ``adj_t``, with a row for every receiver: integers in it are relations, other values are
    weights (ignored if all are one). ``edge_type`` is in the order of its entries. A sparse tensor needs a host-device
    sync.
    """
    x_src, x_dst = split_nodes(x)
    for end, tensor in enumerate((x_src,) if x_dst is x_src else (x_src, x_dst)):
        if tensor.dtype not in FLOATS or not 2 <= tensor.dim() <= 3:
            check_shape(_name(x, end), tensor, ["N", "F"])
            check_floating(_name(x, end), tensor)
    size = (x_src.size(-2), x_dst.size(-2))
    if not isinstance(edge_index, Tensor):
        if not hasattr(edge_index, "relational_linear"):
            came = type(edge_index).__name__
            raise TypeError(f"`edge_index` must be a torch.Tensor or a RelationalAdj, got {came}")
        if edge_type is not None or edge_weight is not None:
            came = "`edge_type`" if edge_type is not None else "`edge_weight`"
            raise ValueError(
                f"`edge_type` and `edge_weight` must be None with a `RelationalAdj`, which holds its own, got {came}"
            )
        if edge_index.num_relations != num_relations:
            raise ValueError(f"`adj` must have {num_relations} relations, got {edge_index.num_relations}")
        if edge_index.size[0] != size[0] or edge_index.size[1] != size[1]:
            raise ValueError(f"`adj` must join {size[0]} to {size[1]} nodes as `x` does, got {edge_index.size}")
        if isinstance(edge_index, RelationalAdj) and edge_index.edge_index.device != x_src.device:
            check_same_device("x", x_src, "adj", edge_index.edge_index)
        return edge_index
    if edge_index.layout != torch.strided:
        edge_index, edge_type, edge_weight = _edges_of_sparse(edge_index, edge_type, edge_weight, size)
    if edge_type is None and num_relations > 1:
        raise ValueError(
            f"`edge_type` must be given for {num_relations} relations, got None; the transform `SplitEdges` writes it"
        )
    check_dense("x", x_src, or_csr=True)
    check_same_device("x", x_src, "edge_index", edge_index)
    check_same_device("x", x_src, "the features of receivers", x_dst)
    return RECENT_GRAPHS.graph(edge_index, edge_type, edge_weight, num_relations, size)


def _edges_of_sparse(
    adj_t: Tensor, edge_type: Tensor | None, edge_weight: Tensor | None, size: tuple[int, int]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """``edge_index``, ``edge_type`` and ``edge_weight`` of a sparse tensor with a row for every receiver."""
    if edge_weight is not None:
        raise ValueError("`edge_weight` must be None with a sparse tensor, which holds the weights, got a tensor")
    if tuple(adj_t.shape) != (size[1], size[0]):
        must = f"[{size[1]}, {size[0]}] as a sparse tensor, a row for every receiver"
        raise ValueError(f"`edge_index` must have shape {must}, got {list(adj_t.shape)}")
    (target, source), values = to_edge_index(adj_t)
    edge_index = torch.stack([source, target])
    if values.is_floating_point():
        return edge_index, edge_type, None if bool((values == 1).all()) else values
    if edge_type is not None:
        raise ValueError("`edge_type` must be None with a sparse tensor of integers, which are types, got a tensor")
    return edge_index, values.long(), None


def check_is_no_count(name: str, value: object, must: str) -> None:
    """Raises if an integer is passed as ``name``: likely a positional ``num_relations``."""
    if isinstance(value, int) and not isinstance(value, bool):
        hint = f"pass the number of relations as `num_relations={value}`"
        raise TypeError(f"`{name}` must be {must}, got {value}; {hint}")


def check_relations(adj: RelationalAdj, num_relations: int) -> None:
    """Raises unless a graph has as many relations as the layer."""
    if adj.num_relations != num_relations:
        raise ValueError(f"`adj` must have {num_relations} relations, got {adj.num_relations}")


def has_negative(weight: Tensor | None) -> bool:
    """Whether a weight is negative; `None` means that all are one."""
    return weight is not None and bool((weight < 0).any())


def check_edge_attr(edge_attr: Tensor | None, lin: torch.nn.Module | None, adj: Prepared) -> None:
    """Raises unless edge features are given if and only if the layer has a map ``lin`` for them, one row per edge."""
    if edge_attr is None or lin is None:
        if edge_attr is not None or lin is not None:
            must, came = ("given when `edge_dim` is set", "None") if lin is not None else ("None", "a tensor")
            if lin is not None and getattr(adj, "edge_weight", None) is not None:
                came = "`edge_weight`, which comes before it: pass `edge_attr=`"
            raise ValueError(f"`edge_attr` must be {must}, got {came}")
        return
    weight: Any = lin.weight
    check_edge_rows(edge_attr, adj, lin.in_channels if int(lin.in_channels) > 0 else "D")  # type: ignore[arg-type]
    check_floating("edge_attr", edge_attr)
    check_dtype("edge_attr", edge_attr, weight.dtype, "the weights of the layer")


def check_edge_rows(edge_attr: Tensor, adj: Prepared, channels: int | str = "D") -> None:
    """Raises unless ``edge_attr`` has one row for every edge of ``adj``, on its device."""
    if isinstance(adj, RelationalAdj):
        check_shape("edge_attr", edge_attr, [adj.num_edges, channels])
        check_same_device("edge_attr", edge_attr, "edge_index", adj.edge_index)


def pair_of_channels(in_channels: object) -> tuple[int, int]:
    """Channels of senders and of receivers, checked; one number is used for both, ``-1`` is lazy."""
    pair = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
    if len(pair) != 2:
        raise ValueError(f"`in_channels` must be a number or a pair (senders, receivers), got {in_channels!r}")
    for channels in pair:
        check_in_channels(channels)
    return int(pair[0]), int(pair[1])


def check_in_channels(channels: object) -> None:
    """Raises unless ``channels`` is a whole number of at least one, or -1."""
    must = "at least 1, or -1 for the size of the first input"
    if isinstance(channels, bool) or not isinstance(channels, SupportsIndex):
        raise TypeError(f"`in_channels` must be a whole number {must}, got {channels!r}")
    number = operator.index(channels)
    if number < 1 and number != -1:
        raise ValueError(f"`in_channels` must be {must}, got {number}")


def made_by(name: str, factory: Callable[[], torch.nn.Module], must: str) -> torch.nn.Module:
    """The module made by ``factory``, checked; a module is returned unchanged."""
    if isinstance(factory, torch.nn.Module):
        return factory
    check_function(name, factory, must)
    made = factory()
    if not isinstance(made, torch.nn.Module):
        raise TypeError(f"`{name}` must be {must}, got one that makes {type(made).__name__}")
    return made


def resolved_aggregation(name: str, aggr: object) -> torch.nn.Module:
    """The aggregation of PyG with this name; a module is returned unchanged."""
    must = 'an aggregation of PyG or the name of one ("sum", "mean")'
    return resolved(name, aggr, must, lambda: aggregation_resolver(aggr), Aggregation)


def resolved(
    name: str, value: object, must: str, resolve: Callable[[], Any], kind: type = torch.nn.Module
) -> torch.nn.Module:
    """The result of a PyG resolver; its various exceptions become one `ValueError`."""
    try:
        found: Any = resolve()
    except (ValueError, TypeError, AttributeError):
        found = None
    if not isinstance(found, torch.nn.Module) or not isinstance(found, kind):
        raise ValueError(f"`{name}` must be {must}, got {value!r}")
    return found


def zeros_parameter(channels: int, wanted: bool) -> torch.nn.Parameter | None:
    """A bias that starts at zero."""
    return torch.nn.Parameter(torch.zeros(channels)) if wanted else None


def has_hooks(layer: torch.nn.Module, own_hook: Callable[..., Any] | None = None) -> bool:
    """Whether someone hooked ``layer`` to see its input, output or gradients, which a part of it would not show.

    ``own_hook`` is a forward hook that does not count.

    >>> layer = torch.nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> has_hooks(layer), handle.remove(), has_hooks(layer)
    (True, None, False)
    """
    if layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
        return True
    hooks = layer._forward_hooks
    return bool(hooks) and any(hook != own_hook for hook in hooks.values())


def linear(module: torch.nn.Module, x: Tensor) -> Tensor:
    """``module(x)`` of a linear map of PyG; under `torch.vmap` with fewer kernels, unless it has hooks."""
    if isinstance(module, Linear) and x.dim() == 2 and only_vmap() and not has_hooks(module):
        return batched_linear(x, module.weight, module.bias)
    out: Tensor = module(x)
    return out


def relu_maps(network: Callable[..., Any], own_hook: Callable[..., Any] | None = None) -> list[Linear] | None:
    """The maps of a network that is linear maps with ReLU between them and no one watches; else `None`.

    ``own_hook`` is a forward hook that does not count.
    """
    if not isinstance(network, MLP) or any(has_hooks(each, own_hook) for each in network.modules()):
        return None
    drops = network.training and any(network.dropout)
    is_usual = type(network.act) is torch.nn.ReLU and network.plain_last and not drops
    is_usual = is_usual and all(isinstance(each, torch.nn.Identity) for each in network.norms)
    return list(network.lins) if is_usual else None


def network_rows(network: Callable[..., Any], x: Tensor) -> Tensor:
    """``network(x)``; for many runs under `torch.vmap` few kernels where it has `relu_maps`."""
    maps = relu_maps(network) if x.dim() == 2 and only_vmap() else None
    if maps is None:
        out: Tensor = network(x)
        return out
    return map_rows(maps, x)


def map_rows(maps: list[Linear], x: Tensor) -> Tensor:
    """Linear maps one after another, with ReLU between them; without a map the rows themselves."""
    for number, each in enumerate(maps, 1):
        x = batched_linear(x, each.weight, each.bias, relu=number < len(maps))
    return x


def batch_norm(
    module: torch.nn.BatchNorm1d,
    x: Tensor,
    counts: Tensor | None = None,
    relu: bool = False,
    added: Tensor | None = None,
) -> Tensor:
    """``module(x)`` with statistics of the rows where ``counts`` is not zero; all rows are normalised.

    With ``relu``, ReLU follows; then ``added`` is added. Statistics are in float32 at least. If no row counts, the
    running statistics stay unchanged; no host-device sync.

    Shapes: ``x`` (N, F), ``counts`` (N,), ``added`` (N, F) -> (N, F)
    """
    running = None if counts is None else updated_statistics(module)
    if counts is not None and running is not None and only_vmap():
        momentum = module.momentum or 0.0
        return run_batch_norm(x, counts, module.weight, module.bias, running, momentum, module.eps, relu, added)
    out = module(x) if counts is None else _normalised(module, x, counts)
    out = out.relu() if relu else out
    return out if added is None else added + out


def updated_statistics(module: torch.nn.BatchNorm1d) -> tuple[Tensor, Tensor, Tensor] | None:
    """Mean, variance and number of batches that a norm updates by a fixed share in training; `None` if it does not."""
    mean, variance, batches = module.running_mean, module.running_var, module.num_batches_tracked
    is_usual = module.training and module.affine and module.momentum is not None
    if not is_usual or mean is None or variance is None or batches is None:
        return None
    return mean, variance, batches


def _normalised(module: torch.nn.BatchNorm1d, x: Tensor, counts: Tensor) -> Tensor:
    mean, variance = module.running_mean, module.running_var
    wide = x if x.dtype == torch.float64 else x.float()
    if module.training or mean is None or variance is None:
        mean, variance = _measure(module, wide, (counts != 0).to(wide.dtype)[:, None])
    out = (wide - mean) * (variance + module.eps).rsqrt()
    return (out * module.weight + module.bias if module.affine else out).to(x.dtype)


def _measure(module: torch.nn.BatchNorm1d, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the chosen rows; updates the running statistics."""
    number = chosen.sum()
    mean = (chosen * x).sum(dim=0) / number.clamp(min=1)
    square = (chosen * (x - mean).square()).sum(dim=0)
    _update(module, mean.detach(), (square / (number - 1).clamp(min=1)).detach(), number != 0)
    return mean, square / number.clamp(min=1)


def _update(module: torch.nn.BatchNorm1d, mean: Tensor, variance: Tensor, any_row: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(any_row)
    some = any_row.to(mean.dtype)  # so that the update stays in the precision of the mean
    share = some / module.num_batches_tracked.clamp(min=1) if module.momentum is None else some * module.momentum
    module.running_mean.mul_(1 - share).add_(share * mean)
    module.running_var.mul_(1 - share).add_(share * variance)
