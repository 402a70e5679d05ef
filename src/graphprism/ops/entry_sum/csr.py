"""`entry_sum` over sorted entries, without atomics; its gradient is a gather."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


def entry_sum(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """One pass over the entries with its own backward pass."""
    out: Tensor = _EntrySum.apply(rows, adj)  # type: ignore[no-untyped-call]
    return out


class _EntrySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, adj: RelationalAdj) -> Tensor:
        ctx.adj = adj
        return adj.incoming.sum_nodes(adj.incoming.order, None, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.adj.dst), None
