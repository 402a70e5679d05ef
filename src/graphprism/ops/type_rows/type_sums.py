"""Sums of rows by type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.all_runs import for_all_runs
from graphprism.ops.choose import only_vmap
from graphprism.ops.type_rows import read_rows, reference, sum_types


def type_sums(rows: Tensor, types: Tensor, num_types: int) -> Tensor:
    """The sum of the rows of each type, the adjoint of `type_rows`; with the same bits every time, on a GPU too.

    Sums come in float32 at least, the gradient in the type of the rows. A type outside 0..T-1 is none: its rows count
    nowhere and get a gradient of zero. They must be finite all the same, as any row that is not may spoil every sum.

    Shapes: ``rows`` (N, F), ``types`` (N,) -> (T, F)

    >>> type_sums(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), torch.tensor([1, -1, 1, 0]), 3).tolist()
    [[8.0], [5.0], [0.0]]
    """
    check_shape("types", types, [rows.size(0)])
    if only_vmap():
        total: Tensor = for_all_runs(_TypeSums, rows, types, num_types)
        return total
    return reference.sum_types(types[None], rows[None], num_types, _wide(rows))[0]


class _TypeSums(torch.autograd.Function):
    """K runs side by side: rows (K, N, F), types (K, N)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, types: Tensor, num_types: int) -> Tensor:
        ctx.save_for_backward(types)
        ctx.dtype = rows.dtype
        return sum_types(types, rows, num_types, _wide(rows))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (types,) = ctx.saved_tensors
        return read_rows(types, grad, ctx.dtype), None, None


def _wide(rows: Tensor) -> torch.dtype:
    return torch.promote_types(rows.dtype, torch.float32)
