"""Attention coefficients: a softmax over the incoming edges of every node, all relations together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_shape
from graphprism.ops.backends import is_transformed
from graphprism.ops.entries import check_graph

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj


def edge_softmax(logit: Tensor, adj: PreparedGraph) -> Tensor:
    r"""Softmax over all entries with the same receiver, each weighted by its :math:`w`.

    .. math:: \alpha_k = \frac{w_k \exp(\ell_k)}{\sum_{m \to i} w_m \exp(\ell_m)}

    An edge of weight two counts as two edges; a weight or score of zero removes an entry. If no entry of a node has a
    positive weight, its coefficients are zero, without a gradient. Weights must not be negative: `ValueError` on the
    CPU; on a GPU and under `torch.compile` or `torch.func`, where values are not checked, the coefficients of that node
    are NaN.

    Shapes: ``logit`` (K, H) -> (K, H)
    """
    check_graph(adj)
    return adj.edge_softmax(logit)


def dispatch_softmax(logit: Tensor, adj: RelationalAdj) -> Tensor:
    """`edge_softmax` on a `RelationalAdj`."""
    weight = adj.weight
    check_not_negative(weight)
    check_shape("logit", logit, [adj.src.numel(), "H"])
    check_floating("logit", logit)
    counted = logit.detach()
    if weight is not None:
        weight = weight.to(logit.dtype)[:, None]
        counted = torch.where(weight > 0, counted, -torch.inf)
    # the largest logit cancels in exact arithmetic, so it needs no gradient
    largest = logit.new_zeros(adj.size[1], logit.size(1)).scatter_reduce(
        0, adj.dst.long()[:, None].expand_as(logit), counted, reduce="amax", include_self=False
    )
    mass = entry_mass(logit - without_minus_infinity(largest)[adj.dst], weight)
    return mass / adj.at_receivers(divisor(adj.entry_sum(mass)))


def check_not_negative(weight: Tensor | None) -> None:
    """Raises for negative weights, on the CPU and outside transformed code."""
    # Here and not in `RelationalAdj`, as only `edge_softmax` needs it: one pass over E numbers beside several over
    # E x H. On a GPU it would be a host-device sync in every forward pass.
    if weight is None or weight.device.type != "cpu" or is_transformed():
        return
    if bool((weight < 0).any()):
        raise ValueError(f"edge weights must not be negative in a softmax, got {float(weight.detach().min()):g}")


def entry_mass(logit: Tensor, weight: Tensor | None) -> Tensor:
    """``weight * exp(logit)``; logits must be <= 0 unless the weight is zero. NaN for negative weights."""
    if weight is None:
        return logit.exp()
    # For weight zero, exp(logit) is the gradient of the weight. It is clamped at the root of the largest number: an
    # overflow to infinity, times zero, would be NaN.
    most = math.log(torch.finfo(logit.dtype).max) / 2
    return torch.where(weight < 0, torch.nan, weight) * logit.clamp(max=most).exp()


def without_minus_infinity(largest: Tensor) -> Tensor:
    """Replaces -inf, the maximum of no entries, by zero; NaN and +inf stay, so that they are noticed."""
    return torch.where(largest == -torch.inf, 0, largest)


def divisor(total: Tensor) -> Tensor:
    """Replaces zero sums by infinity: zero over infinity is zero, with zero gradient."""
    return torch.where(total == 0, torch.inf, total)
