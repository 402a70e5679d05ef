"""`relational_sum` by one sparse product; its gradient is `relational_aggregate` on the reversed edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.entry_dot import entry_dot
from graphprism.ops.relational_adj import RelationalAdj


def relational_sum(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """One sparse product with its own backward pass."""
    out: Tensor = _RelationalSum.apply(h, weight, adj)  # type: ignore[no-untyped-call]
    return out


class _RelationalSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(h if ctx.needs_input_grad[1] else None, weight)
        ctx.adj = adj
        csr = adj.incoming
        return csr.sum_nodes(csr.pair_col, adj.values(csr.order, weight, h.dtype), h.flatten(0, 1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        from graphprism.ops.relational_aggregate.csr import relational_aggregate  # each is the other's gradient

        h, weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        grad_h = relational_aggregate(grad, adj.transpose(), weight) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = entry_dot(grad, adj.dst, h.flatten(0, 1), adj.pair_src).to(weight.dtype)
        return grad_h, grad_weight, None
