"""`graphprism.ops.gated_mean` on a `PaddedAdj`, for one graph or, under `torch.vmap`, many of one shape.

An op of its own, as its data are others: runs lie side by side, edges in slots of their receiver, and the rows of all
maps in one tensor, without biases. It returns the edge features, too, so that they are saved and not computed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends
from graphprism.ops.batched.padded_products import Columns
from graphprism.ops.batched.slot_sum import gated_column_sum
from graphprism.ops.batched.vmap import for_all_runs, only_vmap

if TYPE_CHECKING:
    from graphprism.ops.batched.padded_adj import PaddedAdj

# Biases of the root, the receiver's gate, the edges (`None` without edge rows), the senders' gates and the messages.
Biases = tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]


def mean_reference(
    rows: Tensor,
    edge_rows: Tensor | None,
    biases: Biases,
    numbers: Tensor,
    weights: Tensor,
    num_relations: int,
    num_gates: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The definition; returns both results, the gated mean of messages and 1 / (sum of gates + eps), (K, N, F)."""
    wide = torch.promote_types(rows.dtype, torch.float32)
    columns, channels = Columns(numbers, weights), biases[0].size(1)
    root_bias, dst_bias, edge_bias, src_bias, _ = biases
    maps = rows.to(wide).unflatten(2, (2 + num_gates + num_relations, channels))
    there = columns.weight[..., None] != 0  # (K, N, D, 1)
    edge = (maps[:, :, 1] + dst_bias[:, None])[:, :, None]
    sender = columns.sender_pair // num_relations if num_gates == 1 else columns.sender_pair
    edge = edge + _read(maps[:, :, 2 : 2 + num_gates] + src_bias[:, None], sender)
    if edge_rows is not None:
        edge = edge + edge_rows.view(edge.shape)
    edge = edge if edge_bias is None else edge + edge_bias[:, None, None]
    edge = torch.where(there, edge, 0).to(rows.dtype)
    gate = torch.where(there, edge.to(wide).sigmoid(), 0)
    message = _messages(rows, biases, columns, num_relations, num_gates)
    scale = 1 / (gate.sum(dim=2) + eps)
    ratio = torch.where(there, gate * message, 0).sum(dim=2) * scale
    out = maps[:, :, 0] + root_bias[:, None] + ratio
    return out.to(rows.dtype), edge.flatten(1, 2), ratio, scale


def gradients_reference(
    grad: Tensor,
    grad_edge: Tensor | None,
    rows: Tensor,
    edge: Tensor,
    ratio: Tensor,
    scale: Tensor,
    biases: Biases,
    numbers: Tensor,
    weights: Tensor,
    num_relations: int,
    num_gates: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of ``rows`` and of each summand of ``edge``; zero in empty slots."""
    wide, columns = ratio.dtype, Columns(numbers, weights)
    there = columns.weight[..., None] != 0
    gate = edge.to(wide).view(*there.shape[:3], ratio.size(2)).sigmoid()
    message = _messages(rows, biases, columns, num_relations, num_gates)
    scaled = grad.to(wide) * scale
    slope = scaled[:, :, None] * (message - ratio[:, :, None]) * gate * (1 - gate)
    slope = slope if grad_edge is None else slope + grad_edge.view(slope.shape)
    slope = torch.where(there, slope, 0)
    of_message = torch.where(there, scaled[:, :, None] * gate, 0)
    sent = (columns.sent_weight[..., None] != 0).to(wide)  # (K, N, D, 1)
    by_sender = [sent * _read(each[:, :, None].flatten(1, 2), columns.entry) for each in (slope, of_message)]
    kind = columns.sent_relation[..., None, None] == torch.arange(num_relations, device=grad.device)[:, None]
    apart = [torch.where(kind, each[:, :, :, None], 0).sum(dim=2) for each in by_sender]  # (K, N, R, F)
    of_source = apart[0] if num_gates > 1 else by_sender[0].sum(dim=2)[:, :, None]
    back = torch.cat([grad.to(wide)[:, :, None], slope.sum(dim=2)[:, :, None], of_source, apart[1]], dim=2)
    return back.flatten(2).to(rows.dtype), slope.flatten(1, 2).to(rows.dtype)


def _messages(rows: Tensor, biases: Biases, columns: Columns, num_relations: int, num_gates: int) -> Tensor:
    bias = biases[-1]
    maps = rows.to(torch.promote_types(rows.dtype, torch.float32)).unflatten(2, (2 + num_gates + num_relations, -1))
    return _read(maps[:, :, 2 + num_gates :] + bias[:, None], columns.sender_pair)


def _read(rows: Tensor, place: Tensor) -> Tensor:
    """(K, N, G, F) or (K, M, F) as rows, read at (K, N, D): (K, N, D, F)."""
    flat = rows.flatten(1, 2) if rows.dim() == 4 else rows
    index = place.long().flatten(1)[..., None].expand(-1, -1, flat.size(2))
    return flat.gather(1, index).view(*place.shape, flat.size(2))


MEAN = Backends(reference=mean_reference, triton="graphprism.ops.kernels.padded_gated_mean:gated_mean")
GRADIENTS = Backends(reference=gradients_reference, triton="graphprism.ops.kernels.padded_gated_mean:gated_gradients")


def padded_gated_mean(
    rows: Tensor, edge_rows: Tensor | None, biases: Biases, adj: PaddedAdj, num_gates: int, eps: float
) -> tuple[Tensor, Tensor]:
    r"""`gated_mean` plus a row of the receiver, and the edge features before their normalisation.

    .. math:: \mathbf{x}'_i = \mathbf{c}_i + \mathbf{y}_i, \qquad
        \mathbf{e}'_e = \mathbf{d}_i + \mathbf{s}_{j, r(e)} + \mathbf{a}_e

    where :math:`\mathbf{y}` is the mean with gates :math:`\eta = \sigma(\mathbf{e}')`. ``rows`` concatenates
    :math:`\mathbf{c}, \mathbf{d}`, then :math:`\mathbf{s}` of each relation, or one for all, then the messages
    :math:`\mathbf{m}` of each; ``edge_rows`` are :math:`\mathbf{a}`. Biases are added here. Weights of edges are
    ignored, and empty slots get zeros. No second derivatives.

    Shapes: ``rows`` (N, (2 + G + R) F), ``edge_rows`` (N D, F), biases (F,), (F,), (F,), (G, F), (R, F) -> (N, F),
    (N D, F)
    """
    arguments = (rows, edge_rows, *biases, adj.numbers, adj.weights, adj.num_relations, num_gates, eps)
    if only_vmap():
        many: tuple[Tensor, Tensor] = for_all_runs(_GatedMean, *arguments)
        return many
    alone = [each[None] if isinstance(each, Tensor) else each for each in arguments]
    out, edge = _GatedMean.apply(*alone)  # type: ignore[no-untyped-call]
    return out[0], edge[0]


class _GatedMean(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, edge_rows: Tensor | None, *more: Any) -> tuple[Tensor, Tensor]:
        biases, (numbers, weights, num_relations, num_gates, eps) = more[:5], more[5:]
        gated_mean = MEAN.choose(None, rows.device)
        out, edge, ratio, scale = gated_mean(rows, edge_rows, biases, numbers, weights, num_relations, num_gates, eps)
        ctx.save_for_backward(rows, edge, ratio, scale, numbers, weights, *biases)
        ctx.sizes = num_relations, num_gates
        ctx.set_materialize_grads(False)
        return out, edge

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_edge: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, edge, ratio, scale, numbers, weights, *biases = ctx.saved_tensors
        num_relations, num_gates = ctx.sizes
        grad = torch.zeros_like(ratio, dtype=rows.dtype) if grad is None else grad
        gradients = GRADIENTS.choose(None, rows.device)
        back, of_edges = gradients(
            grad, grad_edge, rows, edge, ratio, scale, tuple(biases), numbers, weights, num_relations, num_gates
        )
        # a bias is added in every row: its gradient is the sum of a column
        sums = gated_column_sum(back, dtype=biases[0].dtype).unflatten(
            1, (2 + num_gates + num_relations, ratio.size(2))
        )
        root, dst, src, message = sums.split([1, 1, num_gates, num_relations], dim=1)
        of_biases = root[:, 0], dst[:, 0], None if biases[2] is None else dst[:, 0], src, message
        needs_edges = ctx.needs_input_grad[1]
        return back, of_edges if needs_edges else None, *of_biases, None, None, None, None, None
