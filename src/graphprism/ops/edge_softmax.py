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
    r"""Normalises over all entries that end in the same node, each counted with its weight :math:`w`.

    .. math:: \alpha_k = \frac{w_k \exp(\ell_k)}{\sum_{m \to i} w_m \exp(\ell_m)}

    An edge of weight two counts as two edges; a weight or score of zero takes an entry out. Where no entry of a node
    has a positive weight, its coefficients are zero and constant. Weights must not be negative: `ValueError` on the
    CPU; on a GPU and in transformed code, where nothing looks at values, the coefficients of that node are NaN.

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
    return mass / divisor(adj.entry_sum(mass))[adj.dst]


def check_not_negative(weight: Tensor | None) -> None:
    """Raises for negative weights, on the CPU and outside transformed code."""
    # Only `edge_softmax` needs this, so `RelationalAdj` takes any weight and the check is here: a pass over E numbers
    # beside several over E x H. On a GPU it would be a host-device sync in every forward pass.
    if weight is None or weight.device.type != "cpu" or is_transformed():
        return
    if bool((weight < 0).any()):
        raise ValueError(f"weights of edges must not be negative in a softmax, got {float(weight.detach().min()):g}")


def entry_mass(logit: Tensor, weight: Tensor | None) -> Tensor:
    """``weight * exp(logit)`` for logits that are not positive unless the weight is zero; NaN for negative weights."""
    if weight is None:
        return logit.exp()
    # The exponential of an entry of weight zero is the gradient of its weight: exact up to the root of the largest
    # number, and finite beyond it, where infinity times zero would be NaN.
    most = math.log(torch.finfo(logit.dtype).max) / 2
    return torch.where(weight < 0, torch.nan, weight) * logit.clamp(max=most).exp()


def without_minus_infinity(largest: Tensor) -> Tensor:
    """The maximum of no entries as zero; NaN and infinity stay, so that they show."""
    return torch.where(largest == -torch.inf, 0, largest)


def divisor(total: Tensor) -> Tensor:
    """Sums to divide by: infinity for zero, as zero over infinity is zero with zero gradient."""
    return torch.where(total == 0, torch.inf, total)
