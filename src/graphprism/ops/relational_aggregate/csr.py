"""`relational_aggregate` by one sparse product; its gradient is `relational_sum` on the reversed edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.entry_dot import entry_dot
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_sum.csr import relational_sum


def relational_aggregate(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """One sparse product with its own backward pass."""
    out: Tensor = _RelationalAggregate.apply(x, weight, adj)  # type: ignore[no-untyped-call]
    return out


class _RelationalAggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.adj = adj
        csr = adj.incoming
        out = csr.sum_pairs(csr.col, adj.values(csr.order, weight, x.dtype), x)
        return out.view(adj.size[1], adj.num_relations, x.size(1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        grad_x = relational_sum(grad, adj.transpose(), weight) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = entry_dot(grad.flatten(0, 1), adj.pair_dst, x, adj.src).to(weight.dtype)
        return grad_x, grad_weight, None
