"""A whole stack of relational layers with ReLU, on tables: what a deep network spends its time with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.relational_stack import layered, reference
from graphprism.ops.table_adj import TableAdj

Stack = Callable[[Tensor, TableAdj, Sequence[Tensor], Sequence[Tensor], bool], tuple[Tensor, ...]]

IMPLEMENTATIONS: dict[str, Stack] = {
    "reference": reference.relational_stack,
    "layered": layered.relational_stack,
}


def relational_stack(
    x: Tensor,
    adj: TableAdj,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    residual: bool = False,
    *,
    impl: str | None = None,
) -> tuple[Tensor, ...]:
    r"""Applies L layers of one width and gives the state after each.

    .. math:: \mathbf{x}^{(l)} =
        \max\Big(0, \sum_r \mathbf{M}_r \mathbf{x}^{(l-1)} \mathbf{W}^{(l)}_r + \mathbf{b}^{(l)}\Big)

    where :math:`\mathbf{M}_r` is the weighted adjacency matrix of relation :math:`r`; with ``residual`` plus
    :math:`\mathbf{x}^{(l-1)}`. No second derivatives.

    Shapes: ``x`` (N, F), L times ``weights`` (R, F, F) and ``biases`` (F,) -> L times (N, F)
    """
    if not weights or len(weights) != len(biases):
        raise ValueError(f"`weights` must be as many as `biases`, one at least, got {len(weights)} and {len(biases)}")
    for weight in weights:
        check_shape("weights", weight, [adj.num_relations, x.size(-1), x.size(-1)])
    check_shape("x", x, [adj.size[0], "F"])
    name = impl or "layered"
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)}, got {impl!r}")
    run, device = IMPLEMENTATIONS[name], x.device.type
    if not torch.is_autocast_enabled(device):
        return run(x, adj, weights, biases, residual)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        low = [[each.to(dtype) for each in part] for part in (weights, biases)]
        return run(x.to(dtype), adj, low[0], low[1], residual)
