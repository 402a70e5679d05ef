"""ReLU and L2 normalisation of rows, fused with the addition before and the maximum after them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from graphprism._checks import check_shape
from graphprism.ops.backends import Backends, inside_functorch

Backend = Callable[..., Any]
_EPS = 1e-12  # lower bound of the norm that is divided by, as in PyTorch


def forward_reference(
    x: Tensor,
    second: Tensor | None,
    bias: Tensor | None,
    kept: Tensor | None,
    largest: Tensor | None,
    *,
    keep: bool,
    overwrite: bool,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """Addition, dropout, ReLU, normalisation, maximum; also returns norms and the mask of rows above ``largest``."""
    out = x
    for other, change in ((bias, torch.add), (second, torch.add), (kept, torch.mul)):
        if other is not None:
            out = change(out, other, out=out if overwrite or out is not x else None)
    out = torch.clamp(out, min=0, out=out if overwrite or out is not x else None)
    length = out.norm(dim=-1, keepdim=True)
    out /= length.clamp(min=_EPS)
    if largest is None:
        return out, None, length, None
    return out, torch.maximum(largest, out), length, out > largest if keep else None


def backward_reference(
    grad: Tensor | None,
    grad_larger: Tensor | None,
    out: Tensor,
    length: Tensor,
    is_larger: Tensor | None,
    dtype: torch.dtype,
    need_bias: bool,
    need_largest: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the summed rows, of the bias and of the largest states before."""
    total, to_largest = grad, None
    if grad_larger is not None and is_larger is not None:
        total = grad_larger * is_larger
        to_largest = grad_larger - total if need_largest else None
        total = total if grad is None else total.add_(grad)
    if total is None:
        raise ValueError("a gradient must be given, of the rows or of the largest states")
    # a norm clamped to `_EPS` has no gradient
    along = (total * out).sum(dim=-1, keepdim=True) * (length >= _EPS)
    found = torch.addcmul(total, out, along, value=-1, out=None if total is grad else total)
    found.div_(length.clamp(min=_EPS)).masked_fill_(out <= 0, 0)  # dropped elements are zero too
    return found.to(dtype), found.flatten(0, -2).sum(dim=0) if need_bias else None, to_largest


FORWARD = Backends(reference=forward_reference, triton="graphprism.ops.kernels.relu_normalize:forward")
BACKWARD = Backends(reference=backward_reference, triton="graphprism.ops.kernels.relu_normalize:backward")


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

    Here :math:`r_{ic} = \max(k_{ic} (x_{ic} + x'_{ic} + b_c), 0)`, where :math:`k_{ic}` is the mask of dropout; its
    scale is omitted, as the normalisation cancels it. A row of zeros stays zero. Where :math:`m_{ic}` and
    :math:`y_{ic}` are equal, the gradient goes to :math:`m_{ic}`.

    Saved for backward: :math:`\mathbf{y}` (which the next layer saves anyway), one norm per row, and the mask where
    :math:`\mathbf{y}` was larger. On a GPU every number is read and written once in each pass.

    Args:
        x: (N, F) rows.
        second: (N, F) further rows :math:`\mathbf{x}'_i` to add.
        bias: (F,) a row :math:`\mathbf{b}` to add to all rows.
        kept: (N, F) :math:`k_{ic}`, booleans.
        largest: (N, F) :math:`m_{ic}`, the largest states of earlier layers.
        overwrite: Whether the result may overwrite ``x``, to which there must be no other reference.
        impl: A backend, ``reference`` or ``triton``.

    Returns:
        (N, F) rows of norm one, and their elementwise maximum with ``largest`` (without it, the same rows).

    >>> out, largest = relu_normalize(torch.tensor([[3.0, 4.0, -2.0]]), largest=torch.tensor([[0.0, 1.0, 0.0]]))
    >>> out, largest
    (tensor([[0.6000, 0.8000, 0.0000]]), tensor([[0.6000, 1.0000, 0.0000]]))
    """
    for name, tensor in (("second", second), ("kept", kept), ("largest", largest)):
        if tensor is not None:
            check_shape(name, tensor, list(x.shape))
    if bias is not None:
        check_shape("bias", bias, [x.size(-1)])
    inputs = (x, second, bias, kept, largest)
    if inside_functorch():
        return _composed(*inputs)
    forward, backward = FORWARD.choose(impl, x.device), BACKWARD.choose(impl, x.device)
    # autograd does not let a function with two outputs write into a view
    overwrite = overwrite and x.is_contiguous() and not x._is_view() and x.dtype == _dtype(x, second, bias)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in inputs):
        out, found = _ReluNormalize.apply(forward, backward, overwrite, *inputs)  # type: ignore[no-untyped-call]
    else:
        out, found, *_ = forward(*inputs, keep=False, overwrite=overwrite)
    return out, out if found is None else found


def _composed(
    x: Tensor, second: Tensor | None, bias: Tensor | None, kept: Tensor | None, largest: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same of operations that transforms of `torch.func` know: they take neither ``out=`` nor saved outputs."""
    out = reduce(torch.add, [each for each in (x, bias, second) if each is not None])
    out = (out if kept is None else out * kept).relu()
    out = out / out.norm(dim=-1, keepdim=True).clamp(min=_EPS)
    return out, out if largest is None else larger(largest, out)


def larger(first: Tensor, second: Tensor) -> Tensor:
    r"""Computes :math:`\max(a_{ic}, b_{ic})`; for equal values the gradient goes to ``first``, NaN stays NaN.

    It saves one byte per number for backward, where a stack would copy all states. Applied layer by layer, it also
    yields the gradients of the states one by one: with six layers, a third of the memory.

    Shapes: (N, F), (N, F) -> (N, F)

    >>> larger(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 4.0]))
    tensor([2., 5.])
    """
    return torch.where((second > first) | second.isnan(), second, first)


class _ReluNormalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, forward: Backend, backward: Backend, overwrite: bool, *inputs: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if overwrite:
            ctx.mark_dirty(inputs[0])
        out, found, length, is_larger = forward(*inputs, keep=True, overwrite=overwrite)
        ctx.save_for_backward(out, length, is_larger)
        ctx.backward, ctx.dtype = backward, inputs[0].dtype  # type: ignore[union-attr]
        ctx.set_materialize_grads(False)  # of the last layer, only the maximum is used
        return out, found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_larger: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None and grad_larger is None:
            return (None,) * 8
        _, _, _, need_x, need_second, need_bias, _, need_largest = ctx.needs_input_grad
        need_largest = need_largest and grad_larger is not None
        grad_x, grad_bias, grad_largest = ctx.backward(
            grad, grad_larger, *ctx.saved_tensors, ctx.dtype, need_bias, need_largest
        )
        rows = (grad_x if need_x else None, grad_x if need_second else None)
        return None, None, None, *rows, grad_bias, None, grad_largest


def _dtype(*summands: Tensor | None) -> torch.dtype:
    """Dtype of their sum."""
    return reduce(torch.promote_types, (each.dtype for each in summands if each is not None))
