"""Differentiable ops of a `PaddedAdj`; each works on one graph or, under `torch.vmap`, on many of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.ops.batched.pair_products import pair_gradient
from graphprism.ops.batched.slot_sum import slot_split_sum, slot_sum
from graphprism.ops.batched.vmap import first_runs
from graphprism.ops.edge_softmax import check_not_negative, divisor, entry_mass, without_minus_infinity

if TYPE_CHECKING:
    from graphprism.ops.batched.padded_adj import PaddedAdj


def read_senders(h: Tensor, adj: PaddedAdj) -> Tensor:
    """The sender's row for each entry, by its relation or one for all: (N, R, ...) or (N, ...) -> (N D, ...).

    A tensor of two dimensions has one row for each node. Empty entries get an arbitrary row, and no gradient.
    """
    per_relation = h.dim() > 2
    rows = h.flatten(0, 1) if per_relation else h
    out: Tensor = _Read.apply(rows.flatten(1), adj.numbers, adj.weights, adj.num_relations, per_relation)  # type: ignore[no-untyped-call]
    return out.view(out.size(0), *rows.shape[1:])


def read_receivers(h: Tensor, adj: PaddedAdj) -> Tensor:
    """The receiver's row for each entry, with the same shapes."""
    if h.dim() == 2:
        return h[:, None].expand(-1, adj.num_slots, -1).flatten(0, 1)
    slots = [adj.entry_relation[:, slot, None] for slot in range(adj.num_slots)]
    flat = h.flatten(2)  # (N, R, F): selecting among few relations by `where` avoids a scatter in backward
    parts = [
        torch.stack([torch.where(slot == r, flat[:, r], 0) for r in range(flat.size(1))]).sum(dim=0) for slot in slots
    ]
    return torch.stack(parts, dim=1).view(h.size(0) * adj.num_slots, *h.shape[2:])


def aggregate(x: Tensor, adj: PaddedAdj) -> Tensor:
    """`relational_aggregate`: (N, F) -> (N, R, F)."""
    out: Tensor = _Aggregate.apply(x, adj.numbers, adj.weights, adj.num_relations)  # type: ignore[no-untyped-call]
    return out.view(out.size(0), adj.num_relations, x.size(-1))


def sum_with_root(x: Tensor, adj: PaddedAdj, eps: Tensor) -> Tensor:
    """The neighbours of every node in any relation, weighted, and 1 + eps times the node itself: (N, F) -> (N, F)."""
    out: Tensor = _SumWithRoot.apply(x, eps, adj.numbers, adj.weights, adj.num_relations)  # type: ignore[no-untyped-call]
    return out


def linear(x: Tensor, adj: PaddedAdj, weight: Tensor) -> Tensor:
    """`relational_linear`: (N, F), (R, F, F') -> (N, F')."""
    out: Tensor = _Linear.apply(x, weight, adj.numbers, adj.weights)  # type: ignore[no-untyped-call]
    return out


def sum_entries(rows: Tensor, adj: PaddedAdj) -> Tensor:
    """Adds up the entries of every node, skipping padding: (N D, ...) -> (N, ...)."""
    rows = rows.unflatten(0, (adj.size[0], adj.num_slots))
    mask = adj.slot_mask.view(*adj.slot_mask.shape, *[1] * (rows.dim() - 2))
    return torch.where(mask, rows, 0).sum(dim=1)


def softmax(logit: Tensor, adj: PaddedAdj) -> Tensor:
    """`edge_softmax`: (N D, H) -> (N D, H); zero for empty entries, whatever their logit."""
    check_not_negative(adj.weights[..., : adj.num_slots])
    weight = adj.weights[..., : adj.num_slots, None].to(logit.dtype)
    logit = logit.unflatten(0, (adj.size[0], adj.num_slots))
    largest = torch.where(weight > 0, logit.detach(), -torch.inf).amax(dim=1, keepdim=True)
    there = weight != 0  # an edge of weight zero counts as an empty slot, whose logit may be NaN
    logit, weight = torch.where(there, logit, 0), torch.where(there, weight, 0)
    mass = entry_mass(logit - without_minus_infinity(largest), weight)
    return (mass / divisor(mass.sum(dim=1, keepdim=True))).flatten(0, 1)


def side_by_side(weight: Tensor) -> Tensor:
    """Concatenates the matrices of the relations: (K, R, F, F') -> (K, F, R F'); a view if the layout allows."""
    return weight.transpose(1, 2).flatten(2)


class Columns:
    """The columns of a `PaddedAdj` by name, with a dimension for runs."""

    def __init__(self, numbers: Tensor, weights: Tensor) -> None:
        slots = weights.size(-1) // 2
        self.sender_pair, self.receiver, self.entry, self.sent_relation, self.relation = numbers.split(slots, dim=-1)
        self.weight, self.sent_weight = weights.split(slots, dim=-1)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor, numbers: Tensor, weights: Tensor, num_relations: int, per_relation: bool) -> Tensor:
        pair = Columns(numbers, weights).sender_pair.flatten(-2).long()
        place = pair if per_relation else pair // num_relations
        if rows.dim() == 2:
            return rows[place]
        return rows.gather(1, place[..., None].expand(-1, -1, rows.size(2)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, numbers, weights, num_relations, per_relation = inputs
        ctx.save_for_backward(numbers, weights)
        ctx.num_relations = num_relations if per_relation else 1

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        one_run = grad.dim() == 2
        grad, numbers, weights = (_with_runs(each, one_run) for each in (grad, *ctx.saved_tensors))
        columns = Columns(numbers, weights)
        there = (columns.sent_weight != 0).to(weights.dtype)
        out = slot_split_sum(grad, columns.entry, there, columns.sent_relation, ctx.num_relations)
        out = out.unflatten(2, (ctx.num_relations, grad.size(2))).flatten(1, 2)
        return out[0] if one_run else out, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _Read.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, numbers: Tensor, weights: Tensor, num_relations: int) -> Tensor:
        one_run = x.dim() == 2
        x, numbers, weights = (_with_runs(each, one_run) for each in (x, numbers, weights))
        columns = Columns(numbers, weights)
        sender = columns.sender_pair if num_relations == 1 else columns.sender_pair // num_relations
        out = slot_split_sum(x, sender, columns.weight, columns.relation, num_relations)
        return out[0] if one_run else out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:3])
        ctx.num_relations = inputs[3]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        one_run = grad.dim() == 2
        grad, numbers, weights = (_with_runs(each, one_run) for each in (grad, *ctx.saved_tensors))
        columns = Columns(numbers, weights)
        one = ctx.num_relations == 1
        place = columns.receiver if one else columns.receiver * ctx.num_relations + columns.sent_relation
        by_relation = grad.unflatten(2, (ctx.num_relations, grad.size(2) // ctx.num_relations)).flatten(1, 2)
        out = slot_sum(by_relation, place, columns.sent_weight)
        return out[0] if one_run else out, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _Aggregate.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _SumWithRoot(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, eps: Tensor, numbers: Tensor, weights: Tensor, num_relations: int) -> Tensor:
        one_run = x.dim() == 2
        x, eps, numbers, weights = (_with_runs(each, one_run) for each in (x, eps, numbers, weights))
        columns = Columns(numbers, weights)
        sender = columns.sender_pair if num_relations == 1 else columns.sender_pair // num_relations
        out = slot_sum(x, sender, columns.weight, root=(x, eps))
        return out[0] if one_run else out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, eps, numbers, weights, _ = inputs
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, eps, numbers, weights)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *saved = ctx.saved_tensors
        of_eps = None if x is None else (x * grad).flatten(-2).sum(dim=-1)
        one_run = grad.dim() == 2
        grad, eps, numbers, weights = (_with_runs(each, one_run) for each in (grad, *saved))
        columns = Columns(numbers, weights)
        out = slot_sum(grad, columns.receiver, columns.sent_weight, root=(grad, eps))
        return out[0] if one_run else out, of_eps, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _SumWithRoot.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
        one_run = x.dim() == 2
        x, weight, numbers, weights = (_with_runs(each, one_run) for each in (x, weight, numbers, weights))
        columns = Columns(numbers, weights)
        h = torch.bmm(x, side_by_side(weight)).unflatten(2, (weight.size(1), weight.size(3))).flatten(1, 2)
        out = slot_sum(h, columns.sender_pair, columns.weight)
        return out[0] if one_run else out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        one_run = grad.dim() == 2
        saved = (_with_runs(each, one_run) for each in (grad, *ctx.saved_tensors))
        grad, x, weight, numbers, weights = saved
        columns, num_relations = Columns(numbers, weights), weight.size(1)
        back = slot_split_sum(grad, columns.receiver, columns.sent_weight, columns.sent_relation, num_relations)
        grad_x = torch.bmm(back, side_by_side(weight).transpose(1, 2))
        grad_weight = pair_gradient(x, back, side_by_side(weight), num_relations)
        return (grad_x[0], grad_weight[0], None, None) if one_run else (grad_x, grad_weight, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _Linear.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


def _with_runs(tensor: Tensor, one_run: bool) -> Tensor:
    return tensor[None] if one_run else tensor
