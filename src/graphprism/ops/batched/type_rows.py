"""Learned rows by type, and sums of rows by type: an embedding and its adjoint, for K runs with their own tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_same_device, check_shape, check_tensor, check_whole, guard_ranges
from graphprism.ops.backends import Backends
from graphprism.ops.batched.vmap import for_all_runs, only_vmap


def read_rows_reference(types: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The definition of `read_rows`: one gather for all runs."""
    kind = types.long()
    there = (kind >= 0) & (kind < weight.size(1))
    # one more row, of zeros, for types out of range
    place = torch.where(there, kind, weight.size(1))[..., None].expand(-1, -1, weight.size(2))
    return torch.nn.functional.pad(weight, (0, 0, 0, 1)).gather(1, place).to(dtype or weight.dtype)


def sum_types_reference(types: Tensor, rows: Tensor, num_types: int, dtype: torch.dtype | None = None) -> Tensor:
    """The definition of `sum_types`: one product with ones and zeros, in the wider of both types."""
    dtype = dtype or rows.dtype
    wide = torch.promote_types(rows.dtype, dtype)
    every = torch.arange(num_types, device=types.device)
    chosen = (types[:, None] == every[:, None]).to(wide)  # (K, T, N)
    return torch.bmm(chosen, rows.to(wide)).to(dtype)


READ_ROWS = Backends(reference=read_rows_reference, triton="graphprism.ops.kernels.type_rows:read_rows")
SUM_TYPES = Backends(reference=sum_types_reference, triton="graphprism.ops.kernels.type_rows:sum_types")


def type_rows(types: Tensor, weight: Tensor) -> Tensor:
    """`torch.nn.functional.embedding`; under `torch.vmap` with a gradient that is one matrix product.

    There every run has its own table, and the gradient of PyTorch's embedding would add rows by atomics, which is not
    deterministic.

    Shapes: ``types`` (...,), ``weight`` (T, F) -> (..., F)
    """
    if not only_vmap():
        check_shape("weight", weight, ["T", "F"])
        check_tensor("types", types)
        check_integer("types", types)
        if types.device.type == "cpu":  # on a GPU the gather itself asserts the range
            guard_ranges({"types": (types, weight.size(0))})
        return torch.nn.functional.embedding(types, weight)
    rows: Tensor = for_all_runs(_TypeRows, types.flatten(), weight)
    return rows.view(*types.shape, weight.size(-1))


def read_rows(types: Tensor, weight: Tensor, dtype: torch.dtype | None = None, *, impl: str | None = None) -> Tensor:
    """The row of every type, zeros for a type outside 0..T-1, without autograd: (K, N), (K, T, F) -> (K, N, F).

    They come in ``dtype``, by default that of ``weight``.
    """
    out: Tensor = READ_ROWS.choose(impl, weight.device, lambda kernels: kernels.takes(weight))(types, weight, dtype)
    return out


def sum_types(
    types: Tensor, rows: Tensor, num_types: int, dtype: torch.dtype | None = None, *, impl: str | None = None
) -> Tensor:
    """Sums of the rows of each type, without autograd: (K, N), (K, N, F) -> (K, T, F).

    They come in ``dtype``, by default that of ``rows``. Rows of a type outside 0..T-1 are ignored, but must be finite:
    a row that is not may make every sum of its run NaN.
    """
    backend = SUM_TYPES.choose(impl, rows.device, lambda kernels: kernels.takes(rows))
    out: Tensor = backend(types, rows, num_types, dtype)
    return out


class _TypeRows(torch.autograd.Function):
    """K runs side by side: types (K, N), rows (K, T, F)."""

    @staticmethod
    def forward(ctx: Any, types: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(types)
        ctx.num_types = weight.size(1)
        return read_rows(types, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (types,) = ctx.saved_tensors
        return None, sum_types(types, grad, ctx.num_types)


def type_sums(rows: Tensor, types: Tensor, num_types: int) -> Tensor:
    """The sum of the rows of each type, the adjoint of `type_rows`; deterministic, on a GPU too.

    Sums are at least float32, the gradient has the type of the rows. Rows of a type outside 0..T-1 are ignored and get
    a gradient of zero, but must be finite: a row that is not may make every sum NaN.

    Shapes: ``rows`` (N, F), ``types`` (N,) -> (T, F)

    >>> type_sums(torch.tensor([[1.0], [2.0], [4.0], [8.0]]), torch.tensor([1, -1, 1, 0]), 3).tolist()
    [[8.0], [5.0], [0.0]]
    """
    check_shape("rows", rows, ["N", "F"])
    check_shape("types", types, [rows.size(0)])
    check_integer("types", types)
    check_same_device("types", types, "rows", rows)
    check_whole("num_types", num_types)
    if only_vmap():
        total: Tensor = for_all_runs(_TypeSums, rows, types, num_types)
        return total
    return sum_types_reference(types[None], rows[None], num_types, _wide(rows))[0]


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
