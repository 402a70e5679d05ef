"""ReLU and a division of every row by its length, with all that stands before and after them in a network."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphprism._checks import check_shape
from graphprism.ops.forms import Forms
from graphprism.ops.relu_normalize import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.relu_normalize import triton

    IMPLEMENTATIONS.add_kernels(triton)


def relu_normalize(
    x: Tensor,
    second: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    kept: Tensor | None = None,
    largest: Tensor | None = None,
    overwrite: bool = False,
    impl: str | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Computes :math:`\mathbf{y}_i = \mathbf{r}_i / \lVert \mathbf{r}_i \rVert_2` and :math:`\max(m_{ic}, y_{ic})`.

    Here :math:`r_{ic} = \max(k_{ic} (x_{ic} + x'_{ic} + b_c), 0)`, where :math:`k_{ic}` says which numbers dropout
    keeps; a length takes the scale of dropout out again. A row of zeros stays one. Where :math:`m_{ic}` and
    :math:`y_{ic}` are equal, the gradient goes to :math:`m_{ic}`.

    For the backward pass it keeps :math:`\mathbf{y}`, which the next layer keeps as well, one number for every row, and
    where :math:`\mathbf{y}` was larger. A GPU reads and writes every number once in each pass.

    Args:
        x: (N, F) rows.
        second: (N, F) further rows :math:`\mathbf{x}'_i` to add.
        bias: (F,) a row :math:`\mathbf{b}` to add to all.
        kept: (N, F) :math:`k_{ic}`, booleans.
        largest: (N, F) :math:`m_{ic}`, the largest states of earlier layers.
        overwrite: Whether the rows may take the place of ``x``, which nobody must need any more.
        impl: A name of `IMPLEMENTATIONS`.

    Returns:
        (N, F) rows of length one, and the larger of them and ``largest``: the rows again where that is not given.

    >>> out, largest = relu_normalize(torch.tensor([[3.0, 4.0, -2.0]]), largest=torch.tensor([[0.0, 1.0, 0.0]]))
    >>> out, largest
    (tensor([[0.6000, 0.8000, 0.0000]]), tensor([[0.6000, 1.0000, 0.0000]]))
    """
    for name, tensor in (("second", second), ("kept", kept), ("largest", largest)):
        if tensor is not None:
            check_shape(name, tensor, list(x.shape))
    if bias is not None:
        check_shape("bias", bias, [x.size(-1)])
    form, inputs = _choose(x, impl), (x, second, bias, kept, largest)
    # autograd lets nothing that gives two tensors write into a view
    overwrite = overwrite and x.is_contiguous() and not x._is_view() and x.dtype == _dtype(x, second, bias)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in inputs):
        out, larger = _ReluNormalize.apply(form, overwrite, *inputs)  # type: ignore[no-untyped-call]
    else:
        out, larger, *_ = form.forward(*inputs, keep=False, overwrite=overwrite)
    return out, out if larger is None else larger


class _ReluNormalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: ModuleType, overwrite: bool, *inputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if overwrite:
            ctx.mark_dirty(inputs[0])
        out, larger, length, is_larger = form.forward(*inputs, keep=True, overwrite=overwrite)
        ctx.save_for_backward(out, length, is_larger)
        ctx.form, ctx.dtype = form, inputs[0].dtype  # type: ignore[union-attr]
        ctx.set_materialize_grads(False)  # nothing reads the last layer's state but its maximum
        return out, larger

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_larger: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None and grad_larger is None:
            return (None,) * 7
        _, _, need_x, need_second, need_bias, _, need_largest = ctx.needs_input_grad
        need_largest = need_largest and grad_larger is not None
        grad_x, grad_bias, grad_largest = ctx.form.backward(
            grad, grad_larger, *ctx.saved_tensors, ctx.dtype, need_bias, need_largest
        )
        rows = (grad_x if need_x else None, grad_x if need_second else None)
        return None, None, *rows, grad_bias, None, grad_largest


def _dtype(*summands: Tensor | None) -> torch.dtype:
    """What their sum has."""
    return reduce(torch.promote_types, (each.dtype for each in summands if each is not None))


def _choose(x: Tensor, impl: str | None) -> ModuleType:
    return IMPLEMENTATIONS.choose(impl, lambda kernels: x.is_cuda)
