"""Sums of rows by type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.choose import only_vmap
from graphprism.ops.table_products import first_runs
from graphprism.ops.type_rows import read_rows, sum_types


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
        total: Tensor = _Batched.apply(rows, types, num_types)  # type: ignore[no-untyped-call]
        return total
    wide = torch.promote_types(rows.dtype, torch.float32)
    chosen = types == torch.arange(num_types, device=types.device)[:, None]
    return chosen.to(wide) @ rows.to(wide)


class _Batched(torch.autograd.Function):
    @staticmethod
    def forward(rows: Tensor, types: Tensor, num_types: int) -> Tensor:
        raise RuntimeError("runs must come through `torch.vmap`")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing: gradients are those of `_TypeSums`."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _TypeSums.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _TypeSums(torch.autograd.Function):
    """K runs side by side: rows (K, N, F), types (K, N)."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, types: Tensor, num_types: int) -> Tensor:
        ctx.save_for_backward(types)
        ctx.dtype = rows.dtype
        return sum_types(types, rows, num_types, torch.promote_types(rows.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (types,) = ctx.saved_tensors
        return read_rows(types, grad, ctx.dtype), None, None
