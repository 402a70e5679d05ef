"""Learned rows by type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.choose import inside_functorch
from graphprism.ops.table_products import first_runs


def type_rows(types: Tensor, weight: Tensor) -> Tensor:
    """`torch.nn.functional.embedding`; under `torch.vmap` with a gradient that is one matrix product.

    There every run has a table of its own, and the gradient of PyTorch's embedding would add up rows by atomics, in
    another order each time.

    Shapes: ``types`` (...,), ``weight`` (T, F) -> (..., F)
    """
    if not inside_functorch():
        return torch.nn.functional.embedding(types, weight)
    rows: Tensor = _Batched.apply(types.flatten(), weight)  # type: ignore[no-untyped-call]
    return rows.view(*types.shape, weight.size(-1))


class _Batched(torch.autograd.Function):
    @staticmethod
    def forward(types: Tensor, weight: Tensor) -> Tensor:
        raise RuntimeError("runs must come through `torch.vmap`")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Nothing: gradients are those of `_TypeRows`."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        return _TypeRows.apply(*first_runs(info, in_dims, args)), 0  # type: ignore[no-untyped-call]


class _TypeRows(torch.autograd.Function):
    """K runs side by side: types (K, N), rows (K, T, F)."""

    @staticmethod
    def forward(ctx: Any, types: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(types)
        ctx.num_types = weight.size(1)
        return weight.gather(1, types.long()[..., None].expand(-1, -1, weight.size(2)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (types,) = ctx.saved_tensors
        every = torch.arange(ctx.num_types, device=types.device)
        chosen = (types[:, None] == every[:, None]).to(grad.dtype)  # (K, T, N)
        return None, torch.bmm(chosen, grad)
