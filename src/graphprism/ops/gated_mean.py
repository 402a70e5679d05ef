"""Means of messages weighted by gates: both maps, the sums of `gated_sums` and their ratio, fused on a GPU.

`MRSGatedGCNConv` uses this on a GPU, `gated_sums` for large graphs on a CPU, and `batched.gated_sum` on a `PaddedAdj`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from graphprism._checks import check_dtype, check_floating, check_same_device, check_shape
from graphprism.ops.backends import Backends, is_transformed
from graphprism.ops.gated_sums import gated_sums

if TYPE_CHECKING:
    from graphprism.ops.relational_adj import RelationalAdj


class LinearMap(NamedTuple):
    """A linear map: ``weight`` (F_in, F_out) and ``bias`` (F_out,)."""

    weight: Tensor
    bias: Tensor

    def rows(self, x: Tensor) -> Tensor:
        """The map of every row, (N, F_in) -> (N, F_out)."""
        return torch.addmm(self.bias, x, self.weight)


def reference(
    x_src: Tensor,
    x_dst: Tensor,
    adj: RelationalAdj,
    receivers: LinearMap,
    senders: LinearMap,
    num_gates: int,
    eps: float,
) -> Tensor:
    """The definition, with several rows per entry."""
    dst_rows, src_rows = receivers.rows(x_dst), senders.rows(x_src)
    src_rows = src_rows.view(adj.size[0], num_gates + adj.num_relations, dst_rows.size(1))
    gates, messages = src_rows[:, :num_gates], src_rows[:, num_gates:]
    numerator, denominator = gated_sums(dst_rows, gates, messages, adj, impl="reference")
    return numerator / (denominator + eps)


BACKENDS = Backends(reference=reference, triton="graphprism.ops.kernels.gated_mean:gated_mean")


def is_fused(adj: RelationalAdj) -> bool:
    """Whether `gated_mean` makes no rows of entries for this graph."""
    return not adj.is_soft and not is_transformed() and BACKENDS.kernel_fits(adj.device)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Turns autocast off; no-op where it is off, since entering it takes as long as a small kernel."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def gated_mean(
    x: tuple[Tensor, Tensor],
    adj: RelationalAdj,
    receivers: LinearMap,
    senders: LinearMap,
    *,
    num_gates: int,
    eps: float,
    impl: str | None = None,
) -> Tensor:
    r"""The mean of messages, each channel weighted by a gate of receiver and sender.

    .. math:: \mathbf{y}_i = \frac{\sum_{e = (j, i)} w_e \, \eta_e \odot \mathbf{m}_{j, r(e)}}
        {\sum_{e = (j, i)} w_e \, \eta_e + \epsilon}, \qquad \eta_e = \sigma(\mathbf{d}_i + \mathbf{s}_{j, g(e)})

    where :math:`\mathbf{d}` is the map ``receivers`` of the receiving nodes, :math:`\mathbf{s}` and :math:`\mathbf{m}`
    are the maps ``senders`` of the sending ones: G gates, then R messages, side by side. One gate is shared by all
    relations; R gates are one per relation. Types must be hard.

    Shapes: ``x`` (N_src, F_src) and (N_dst, F_dst), ``receivers`` F_dst -> F, ``senders`` F_src -> (G + R) * F;
    the result is (N_dst, F)
    """
    _check(x, adj, receivers, senders, num_gates)
    device = x[0].device
    if torch.is_autocast_enabled(device.type) and x[0].dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device.type)
        x = x[0].to(dtype), x[1].to(dtype)
        receivers, senders = (LinearMap(each.weight.to(dtype), each.bias.to(dtype)) for each in (receivers, senders))
    mean = BACKENDS.choose(impl, device, lambda _: is_fused(adj))
    with without_autocast(device):
        out: Tensor = mean(*x, adj, receivers, senders, num_gates, eps)
    return out


def _check(
    x: tuple[Tensor, Tensor], adj: RelationalAdj, receivers: LinearMap, senders: LinearMap, num_gates: int
) -> None:
    if adj.is_soft:
        raise ValueError("`adj` must have hard types, one per edge, got soft ones")
    if num_gates not in (1, adj.num_relations):
        raise ValueError(f"`num_gates` must be 1 or the number of relations {adj.num_relations}, got {num_gates}")
    channels = receivers.weight.size(-1)
    maps = (senders, (num_gates + adj.num_relations) * channels), (receivers, channels)
    for end, (rows, (each, width)) in enumerate(zip(x, maps, strict=True)):
        check_shape(f"x[{end}]", rows, [adj.size[end], "F"])
        check_floating(f"x[{end}]", rows)
        check_same_device(f"x[{end}]", rows, "adj", adj.edge_index)
        check_shape("weight", each.weight, [rows.size(1), width])
        check_shape("bias", each.bias, [width])
        check_dtype("weight", each.weight, rows.dtype, f"`x[{end}]`")
