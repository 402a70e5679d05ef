"""Attention over the entries of a `PaddedAdj`, for one graph or, under `torch.vmap`, many of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends
from graphprism.ops.batched.padded_products import Columns
from graphprism.ops.batched.slot_sum import gated_column_sum
from graphprism.ops.batched.vmap import for_all_runs, only_vmap
from graphprism.ops.edge_softmax import check_not_negative, divisor, entry_mass, without_minus_infinity

if TYPE_CHECKING:
    from graphprism.ops.batched.padded_adj import PaddedAdj


def sum_reference(
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None,
    bias: Tensor | None,
    numbers: Tensor,
    weights: Tensor,
    negative_slope: float,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition; returns the sums, and the coefficients and the logits before LeakyReLU, both (K, N, D, H)."""
    columns, (_, _, num_relations, heads, _) = Columns(numbers, weights), h.shape
    wide = h.to(torch.promote_types(h.dtype, torch.float32))
    as_sender, as_receiver = ((wide * each[:, None, None]).sum(dim=-1).flatten(1, 2) for each in (att_src, att_dst))
    weight, pair = columns.weight[..., None].to(wide.dtype), columns.sender_pair
    there, node = weight != 0, torch.arange(h.size(1), device=h.device)[:, None]
    own = node * num_relations + pair % num_relations
    logit = _read(as_sender, pair) + _read(as_receiver, own)
    logit = logit if edge_logit is None else logit + edge_logit.view(logit.shape)
    logit = torch.where(there, logit, 0)
    passed = torch.nn.functional.leaky_relu(logit, negative_slope)
    largest = torch.where(weight > 0, passed, -torch.inf).amax(dim=2, keepdim=True)
    mass = entry_mass(passed - without_minus_infinity(largest), weight)
    mass = torch.where(there, mass, 0)
    alpha = mass / divisor(mass.sum(dim=2, keepdim=True))
    message = torch.where(there[..., None], _read(wide.flatten(1, 2).flatten(2), pair).unflatten(3, (heads, -1)), 0)
    out = (alpha[..., None] * message).sum(dim=2)  # (K, N, H, F)
    out = out.mean(dim=2) if mean else out.flatten(2)
    return (out if bias is None else out + bias[:, None]).to(h.dtype), alpha, logit


def gradients_reference(
    grad: Tensor,
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    alpha: Tensor,
    logit: Tensor,
    numbers: Tensor,
    weights: Tensor,
    negative_slope: float,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of ``h``, of both attention vectors and of the logits, (K, N, D, H)."""
    columns, (_, _, num_relations, heads, channels) = Columns(numbers, weights), h.shape
    wide, grad = h.to(alpha.dtype), grad.to(alpha.dtype)
    grad = grad[:, :, None].expand(-1, -1, heads, -1) / heads if mean else grad.unflatten(2, (heads, channels))
    pair, there = columns.sender_pair, columns.weight[..., None] != 0
    message = torch.where(there[..., None], _read(wide.flatten(1, 2).flatten(2), pair).unflatten(3, (heads, -1)), 0)
    of_alpha = (grad[:, :, None] * message).sum(dim=-1)
    of_logit = alpha * (of_alpha - (alpha * of_alpha).sum(dim=2, keepdim=True))
    of_logit = torch.where(logit > 0, of_logit, negative_slope * of_logit)
    relations = torch.arange(num_relations, device=h.device)[:, None]
    received = torch.where((pair % num_relations)[..., None, None] == relations, of_logit[:, :, :, None], 0).sum(dim=2)
    chosen = (columns.sent_relation[..., None, None] == relations) & (columns.sent_weight != 0)[..., None, None]
    sent = torch.where(chosen, _read(of_logit.flatten(1, 2), columns.entry)[:, :, :, None], 0).sum(dim=2)
    coefficient = _read(alpha.flatten(1, 2), columns.entry)[..., None]  # (K, N, D, H, 1)
    back = coefficient * _read(grad.flatten(2), columns.receiver).unflatten(3, (heads, channels))
    back = torch.where(chosen[..., None], back[:, :, :, None], 0).sum(dim=2)
    vectors, of_vectors = (att_src, att_dst), []
    for vector, of_score in zip(vectors, (sent, received), strict=True):  # (K, H, F), (K, N, R, H)
        back = back + of_score[..., None] * vector[:, None, None]
        of_vectors.append((of_score[..., None] * wide).sum(dim=(1, 2)).to(vector.dtype))
    return back.to(h.dtype), of_vectors[0], of_vectors[1], of_logit


def _read(rows: Tensor, place: Tensor) -> Tensor:
    """(K, M, F) read at (K, N, D): (K, N, D, F)."""
    index = place.long().flatten(1)[..., None].expand(-1, -1, rows.size(2))
    return rows.gather(1, index).view(*place.shape, rows.size(2))


SUM = Backends(reference=sum_reference, triton="graphprism.ops.kernels.attention_sum:attention_sum")
GRADIENTS = Backends(reference=gradients_reference, triton="graphprism.ops.kernels.attention_sum:attention_gradients")


def padded_attention_sum(
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None,
    bias: Tensor | None,
    adj: PaddedAdj,
    negative_slope: float,
    mean: bool,
) -> Tensor:
    r"""The sums of `graphprism.nn.MRSGATConv`.

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{e = (j, i)} \alpha_e \mathbf{h}_{j, r(e)}, \qquad
        \alpha_e = \operatorname{softmax}_{e \to i} \operatorname{LeakyReLU} \big(
        \mathbf{a}_s^\top \mathbf{h}_{j, r(e)} + \mathbf{a}_t^\top \mathbf{h}_{i, r(e)} + \ell_e \big)

    for every head; heads are concatenated, or averaged with ``mean``. No second derivatives.

    Shapes: ``h`` (N, R, H, F), ``att_src`` and ``att_dst`` (H, F), ``edge_logit`` (N D, H), ``bias`` (H F,) or (F,) ->
    (N, H F) or (N, F)
    """
    check_not_negative(adj.weights[..., : adj.num_slots])
    arguments = (h, att_src, att_dst, edge_logit, bias, adj.numbers, adj.weights, negative_slope, mean)
    if only_vmap():
        many: Tensor = for_all_runs(_AttentionSum, *arguments)
        return many
    alone = [each[None] if isinstance(each, Tensor) else each for each in arguments]
    out: Tensor = _AttentionSum.apply(*alone)  # type: ignore[no-untyped-call]
    return out[0]


class _AttentionSum(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, att_src: Tensor, att_dst: Tensor, *more: Any) -> Tensor:
        edge_logit, bias, numbers, weights, *options = more
        out, alpha, logit = SUM.choose(None, h.device)(h, att_src, att_dst, *more)
        ctx.save_for_backward(h, att_src, att_dst, alpha, logit, numbers, weights)
        ctx.options = options
        ctx.logit_type, ctx.bias_type = (None if each is None else each.dtype for each in (edge_logit, bias))
        found: Tensor = out
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h = ctx.saved_tensors[0]
        *found, of_logit = GRADIENTS.choose(None, h.device)(grad, *ctx.saved_tensors, *ctx.options)
        of_edges = None if ctx.logit_type is None else of_logit.flatten(1, 2).to(ctx.logit_type)
        of_bias = None if ctx.bias_type is None else gated_column_sum(grad, dtype=ctx.bias_type)
        return *found, of_edges, of_bias, None, None, None, None
