"""Differentiable products with a `TableAdj`; each works on one graph or, under `torch.vmap`, on many of one shape."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.all_runs import first_runs
from graphprism.ops.pair_gradient import pair_gradient
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_sum import table_split_sum, table_sum


def read_senders(h: Tensor, adj: TableAdj) -> Tensor:
    """What the sender of every entry has prepared for its relation, or for all: (N, R, ...) or (N, ...) -> (N D, ...).

    A tensor of two dimensions has one row for each node. Empty entries get some row, and take no gradient.
    """
    per_relation = h.dim() > 2
    rows = h.flatten(0, 1) if per_relation else h
    out: Tensor = _Read.apply(rows.flatten(1), adj.numbers, adj.weights, adj.num_relations, per_relation)  # type: ignore[no-untyped-call]
    return out.view(out.size(0), *rows.shape[1:])


def aggregate(x: Tensor, adj: TableAdj) -> Tensor:
    """`relational_aggregate`: (N, F) -> (N, R, F)."""
    out: Tensor = _Aggregate.apply(x, adj.numbers, adj.weights, adj.num_relations)  # type: ignore[no-untyped-call]
    return out.view(out.size(0), adj.num_relations, x.size(-1))


def linear(x: Tensor, adj: TableAdj, weight: Tensor) -> Tensor:
    """`relational_linear`: (N, F), (R, F, F') -> (N, F')."""
    out: Tensor = _Linear.apply(x, weight, adj.numbers, adj.weights)  # type: ignore[no-untyped-call]
    return out


def sum_entries(rows: Tensor, adj: TableAdj) -> Tensor:
    """Adds up the entries of every node, empty ones left out: (N D, ...) -> (N, ...)."""
    rows = rows.unflatten(0, (adj.size[0], adj.num_slots))
    there = adj.is_entry.view(*adj.is_entry.shape, *[1] * (rows.dim() - 2))
    return torch.where(there, rows, 0).sum(dim=1)


def softmax(logit: Tensor, adj: TableAdj) -> Tensor:
    """`edge_softmax`: (N D, H) -> (N D, H); zero for empty entries, whatever their logit."""
    weight = adj.weights[..., : adj.num_slots, None].to(logit.dtype)
    logit = logit.unflatten(0, (adj.size[0], adj.num_slots))
    largest = torch.where(weight > 0, logit.detach(), -torch.inf).amax(dim=1, keepdim=True)
    there = weight != 0  # an edge of weight zero is an empty slot: a constant, with a logit that may be anything
    logit, weight = torch.where(there, logit, 0), torch.where(there, weight, 0)
    mass = entry_mass(logit - without_minus_infinity(largest), weight)
    return (mass / divisor(mass.sum(dim=1, keepdim=True))).flatten(0, 1)


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


def side_by_side(weight: Tensor) -> Tensor:
    """Matrices of the relations as one: (K, R, F, F') -> (K, F, R F'); a view where they are stored so."""
    return weight.transpose(1, 2).flatten(2)


class Columns:
    """The columns of a table by name, with a dimension for runs."""

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
        out = table_split_sum(grad, columns.entry, there, columns.sent_relation, ctx.num_relations)
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
        sender = columns.sender_pair // num_relations
        out = table_split_sum(x, sender, columns.weight, columns.relation, num_relations)
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
        place = columns.receiver * ctx.num_relations + columns.sent_relation
        by_relation = grad.unflatten(2, (ctx.num_relations, grad.size(2) // ctx.num_relations)).flatten(1, 2)
        out = table_sum(by_relation, place, columns.sent_weight)
        return out[0] if one_run else out, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _Aggregate.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
        one_run = x.dim() == 2
        x, weight, numbers, weights = (_with_runs(each, one_run) for each in (x, weight, numbers, weights))
        columns = Columns(numbers, weights)
        h = torch.bmm(x, side_by_side(weight)).unflatten(2, (weight.size(1), weight.size(3))).flatten(1, 2)
        out = table_sum(h, columns.sender_pair, columns.weight)
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
        back = table_split_sum(grad, columns.receiver, columns.sent_weight, columns.sent_relation, num_relations)
        grad_x = torch.bmm(back, side_by_side(weight).transpose(1, 2))
        grad_weight = pair_gradient(x, back, side_by_side(weight), num_relations)
        return (grad_x[0], grad_weight[0], None, None) if one_run else (grad_x, grad_weight, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _Linear.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


def _with_runs(tensor: Tensor, one_run: bool) -> Tensor:
    return tensor[None] if one_run else tensor
