"""Both products of a layer on a graph so small that a GPU waits for launches: the sums are kept for backward.

Two kernels forward and three backward, with no copy of the weights, where the other algorithms launch three and five.
Beside so little work of the device that of the host counts: indices and weights of the entries are looked up once for
all layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from graphprism.ops.csr import embedding_bag, fills_gpu

if TYPE_CHECKING:
    from graphprism.ops.relational_adj import RelationalAdj


class _Rows(NamedTuple):
    """Rows of entries to sum over.

    Attributes:
        rowptr: (M + 1,) where each row begins.
        col: (K,) the row of the summands of every entry.
        value: (K,) its weight.
        entry_weight: the weights that ``value`` was sorted from.
    """

    rowptr: Tensor
    col: Tensor
    value: Tensor | None
    entry_weight: Tensor | None


def sums_kept_forward(
    x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
) -> tuple[Tensor, Tensor]:
    """The messages with a bias, and the sums (N, R * F_in) that `sums_kept_backward` starts from."""
    key = ("rows of pairs", x.dtype)
    rows: _Rows | None = adj.products.get(key)
    if rows is None or rows.entry_weight is not entry_weight:
        csr = adj.incoming
        rows = _Rows(csr.rowptr, csr.col, adj.values(csr.order, entry_weight, x.dtype), entry_weight)
        _keep(adj, key, rows)
    stacked = weight.flatten(0, 1)
    if fills_gpu(rows.col, x):
        sums = adj.incoming.sum_pairs(rows.col, rows.value, x)
    else:
        sums = embedding_bag(rows.rowptr, rows.col, rows.value, x)
    sums = sums.view(adj.size[1], stacked.size(0))
    if bias is not None and x.is_cuda:
        # `addmm` looks for the best kernel anew in each call: 60 us of the host, where `mm` takes 25
        return torch.mm(sums, stacked).add_(bias), sums
    return torch.mm(sums, stacked) if bias is None else torch.addmm(bias, sums, stacked), sums


def sums_kept_backward(
    grad: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    sums: Tensor,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of ``x`` and ``weight`` by the chain rule: through the matrices, then along the reversed edges."""
    grad_weight = torch.mm(sums.t(), grad).view(weight.shape) if need_weight else None
    if not need_x:
        return None, grad_weight
    key = ("rows of senders", grad.dtype)
    rows: _Rows | None = adj.products.get(key)
    if rows is None or rows.entry_weight is not entry_weight:
        csr = adj.outgoing
        rows = _Rows(csr.node_rowptr, csr.pair_col, adj.values(csr.order, entry_weight, grad.dtype), entry_weight)
        _keep(adj, key, rows)
    grad_sums = torch.mm(grad, weight.flatten(0, 1).t()).view(adj.size[1] * weight.size(0), weight.size(1))
    if fills_gpu(rows.col, grad_sums):
        return adj.outgoing.sum_nodes(rows.col, rows.value, grad_sums), grad_weight
    return embedding_bag(rows.rowptr, rows.col, rows.value, grad_sums), grad_weight


def _keep(adj: RelationalAdj, key: object, rows: _Rows) -> None:
    """For the other layers, unless the weights have a gradient or are made anew in each of them.

    Nor what compiled code computes: it would lie in memory that a CUDA graph overwrites.
    """
    weight = rows.entry_weight
    if torch.compiler.is_compiling():
        return
    if weight is adj.edge_weight and not (weight is not None and weight.requires_grad):
        adj.products[key] = rows
