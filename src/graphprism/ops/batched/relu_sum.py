"""`graphprism.ops.relu_sum.relu_sum` on a `PaddedAdj`, for one graph or, under `torch.vmap`, many of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends
from graphprism.ops.batched.padded_products import Columns
from graphprism.ops.batched.slot_sum import slot_split_sum
from graphprism.ops.batched.vmap import first_runs

if TYPE_CHECKING:
    from graphprism.ops.batched.padded_adj import PaddedAdj


def padded_relu_sum(h: Tensor, adj: PaddedAdj, edge_rows: Tensor | None, by_relation: bool) -> Tensor:
    """`relu_sum`: rows of empty slots are ignored, even NaN."""
    per_relation = h.dim() > 2
    rows = h.flatten(0, 1) if per_relation else h
    options = (adj.num_relations, per_relation, by_relation)
    tables = (adj.numbers, adj.weights, adj.sent_mask)
    out: Tensor = _ReluSum.apply(rows, edge_rows, *tables, *options)  # type: ignore[no-untyped-call]
    return out.unflatten(1, (adj.num_relations, h.size(-1))) if by_relation else out


def sum_reference(
    rows: Tensor, edge_rows: Tensor | None, place: Tensor, weight: Tensor, relation: Tensor, num_sums: int
) -> Tensor:
    """The definition: a message for every slot, summed in the relation of the slot; never optimised."""
    message = _messages(rows, edge_rows, place)  # (K, N, D, F)
    message = torch.where(weight[..., None] != 0, weight[..., None].to(rows.dtype) * message.relu(), 0)
    if num_sums == 1:
        return message.sum(dim=2)
    chosen = relation[..., None] == torch.arange(num_sums, device=relation.device)  # (K, N, D, R)
    return torch.where(chosen[..., None], message[..., None, :], 0).sum(dim=2).flatten(2)


def gradient_reference(
    rows: Tensor,
    edge_rows: Tensor | None,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_sums: int,
    grad: Tensor,
) -> Tensor:
    """The gradient of every message before ReLU, (K, N D, F); zero in empty slots."""
    passes = (_messages(rows, edge_rows, place) > 0) & (weight[..., None] != 0)
    if num_sums > 1:
        grad = grad.unflatten(2, (num_sums, rows.size(2)))
        grad = grad.gather(2, relation.long()[..., None].expand(-1, -1, -1, rows.size(2)))  # (K, N, D, F)
    else:
        grad = grad[:, :, None]
    return torch.where(passes, weight[..., None].to(grad.dtype) * grad, 0).flatten(1, 2)


def _messages(rows: Tensor, edge_rows: Tensor | None, place: Tensor) -> Tensor:
    index = place.long().flatten(1)[..., None].expand(-1, -1, rows.size(2))
    message = rows.gather(1, index)
    message = message if edge_rows is None else message + edge_rows
    return message.view(*place.shape, rows.size(2))


SUM = Backends(reference=sum_reference, triton="graphprism.ops.kernels.relu_sum:relu_sum")
GRADIENT = Backends(reference=gradient_reference, triton="graphprism.ops.kernels.relu_sum:relu_gradient")


class _ReluSum(torch.autograd.Function):
    @staticmethod
    def forward(
        rows: Tensor,
        edge_rows: Tensor | None,
        numbers: Tensor,
        weights: Tensor,
        sent_mask: Tensor,
        num_relations: int,
        per_relation: bool,
        by_relation: bool,
    ) -> Tensor:
        one_run = rows.dim() == 2
        rows, edge_rows, numbers, weights = _all_with_runs(one_run, rows, edge_rows, numbers, weights)
        args = _slots(numbers, weights, num_relations, per_relation, by_relation)
        out: Tensor = SUM.choose(None, rows.device)(rows, edge_rows, *args)
        return out[0] if one_run else out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:5])
        ctx.options = inputs[5:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        one_run = grad.dim() == 2
        found = _all_with_runs(one_run, grad, *ctx.saved_tensors)
        grad, rows, edge_rows, numbers, weights, sent_mask = found
        num_relations, per_relation, _ = ctx.options
        args = _slots(numbers, weights, *ctx.options)
        by_entry: Tensor = GRADIENT.choose(None, grad.device)(rows, edge_rows, *args, grad.contiguous())
        columns = Columns(numbers, weights)
        count = num_relations if per_relation else 1
        back = slot_split_sum(by_entry, columns.entry, sent_mask, columns.sent_relation, count)
        back = back.unflatten(2, (count, rows.size(2))).flatten(1, 2)
        grads = (back, None if edge_rows is None else by_entry)
        first, second = (each[0] if one_run and each is not None else each for each in grads)
        return first, second, None, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _ReluSum.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


def _all_with_runs(one_run: bool, *tensors: Tensor | None) -> list[Any]:
    return [each[None] if one_run and each is not None else each for each in tensors]


def _slots(
    numbers: Tensor, weights: Tensor, num_relations: int, per_relation: bool, by_relation: bool
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The row that each entry reads, its weight, its relation, and the number of sums per node."""
    columns = Columns(numbers, weights)
    place = columns.sender_pair if per_relation or num_relations == 1 else columns.sender_pair // num_relations
    return place, columns.weight, columns.relation, num_relations if by_relation else 1
