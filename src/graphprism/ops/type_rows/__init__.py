"""Learned rows by type."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.all_runs import for_all_runs
from graphprism.ops.choose import only_vmap
from graphprism.ops.forms import Forms
from graphprism.ops.type_rows import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.type_rows import triton

    IMPLEMENTATIONS.add_kernels(triton)


def type_rows(types: Tensor, weight: Tensor) -> Tensor:
    """`torch.nn.functional.embedding`; under `torch.vmap` with a gradient that is one matrix product.

    There every run has a table of its own, and the gradient of PyTorch's embedding would add up rows by atomics, in
    another order each time.

    Shapes: ``types`` (...,), ``weight`` (T, F) -> (..., F)
    """
    if not only_vmap():
        return torch.nn.functional.embedding(types, weight)
    rows: Tensor = for_all_runs(_TypeRows, types.flatten(), weight)
    return rows.view(*types.shape, weight.size(-1))


def read_rows(types: Tensor, weight: Tensor, dtype: torch.dtype | None = None, *, impl: str | None = None) -> Tensor:
    """The row of every type, zeros for a type outside 0..T-1, without autograd: (K, N), (K, T, F) -> (K, N, F).

    They come in ``dtype``, by default that of ``weight``.
    """
    out: Tensor = _choose(weight, impl).read_rows(types, weight, dtype)
    return out


def sum_types(
    types: Tensor, rows: Tensor, num_types: int, dtype: torch.dtype | None = None, *, impl: str | None = None
) -> Tensor:
    """Sums of the rows of each type, without autograd: (K, N), (K, N, F) -> (K, T, F).

    They come in ``dtype``, by default that of ``rows``. Rows of a type outside 0..T-1 count nowhere. A row that is not
    finite, whatever its type, may spoil every sum of its run.
    """
    out: Tensor = _choose(rows, impl).sum_types(types, rows, num_types, dtype)
    return out


def _choose(rows: Tensor, impl: str | None) -> ModuleType:
    return IMPLEMENTATIONS.choose(impl, lambda kernels: kernels.takes(rows))


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
