"""Attention coefficients: a softmax over the incoming edges of every node, all relations together."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.choose import inside_functorch
from graphprism.ops.entry_sum import entry_sum
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import divisor, entry_mass, softmax, without_minus_infinity


def edge_softmax(logit: Tensor, adj: RelationalAdj | TableAdj) -> Tensor:
    r"""Normalises over all entries that end in the same node, each counted with its weight :math:`w`.

    .. math:: \alpha_k = \frac{w_k \exp(\ell_k)}{\sum_{m \to i} w_m \exp(\ell_m)}

    An edge of weight two counts as two edges; a weight or score of zero takes an entry out. Where no entry of a node
    has a positive weight, its coefficients are zero and constant. Weights must not be negative: `ValueError` on the
    CPU; on a GPU and in transformed code, where nothing looks at values, the coefficients of that node are NaN.

    Shapes: ``logit`` (K, H) -> (K, H)
    """
    weight = adj.weights[..., : adj.num_slots] if isinstance(adj, TableAdj) else adj.weight
    _check_not_negative(weight)
    if isinstance(adj, TableAdj):
        return softmax(logit, adj)
    check_shape("logit", logit, [adj.src.numel(), "H"])
    counted = logit.detach()
    if weight is not None:
        weight = weight.to(logit.dtype)[:, None]
        counted = torch.where(weight > 0, counted, -torch.inf)
    # the largest logit cancels in exact arithmetic, so it needs no gradient
    largest = logit.new_zeros(adj.size[1], logit.size(1)).scatter_reduce(
        0, adj.dst.long()[:, None].expand_as(logit), counted, reduce="amax", include_self=False
    )
    mass = entry_mass(logit - without_minus_infinity(largest)[adj.dst], weight)
    return mass / divisor(entry_sum(mass, adj))[adj.dst]


def _check_not_negative(weight: Tensor | None) -> None:
    # Only `edge_softmax` needs this, so `RelationalAdj` takes any weight and the check is here: a pass over E numbers
    # beside several over E x H. On a GPU it would be a host-device sync in every forward pass.
    if weight is None or weight.device.type != "cpu" or torch.compiler.is_compiling() or inside_functorch():
        return
    if bool((weight < 0).any()):
        raise ValueError(f"weights of edges must not be negative in a softmax, got {float(weight.detach().min()):g}")
