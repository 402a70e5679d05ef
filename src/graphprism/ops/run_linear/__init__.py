"""A linear layer of many runs at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.all_runs import for_all_runs
from graphprism.ops.choose import only_vmap
from graphprism.ops.forms import Forms
from graphprism.ops.run_linear import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.run_linear import triton

    IMPLEMENTATIONS.add_kernels(triton)


def run_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`; under `torch.vmap` one kernel each way, where every run has weights of its own.

    Meant for few outputs and few rows, such as a network's head, where kernels take longer to start than to run.

    Shapes: ``x`` (..., F), ``weight`` (T, F), ``bias`` (T,) -> (..., T)

    >>> run_linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([0.5]))
    tensor([[11.5000]])
    """
    if not only_vmap():
        return torch.nn.functional.linear(x, weight, bias)
    check_shape("weight", weight, ["T", x.size(-1)])
    if bias is not None:
        check_shape("bias", bias, [weight.size(0)])
    out: Tensor = for_all_runs(_RunLinear, x.reshape(-1, x.size(-1)), weight, bias)
    return out.view(*x.shape[:-1], weight.size(0))


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    """The layer of every run, in the wider type of ``x`` and ``weight``, without autograd.

    Shapes: ``x`` (K, B, F), ``weight`` (K, T, F), ``bias`` (K, T) -> (K, B, T)
    """
    out: Tensor = IMPLEMENTATIONS.choose(impl, lambda kernels: kernels.takes(x, weight)).linear_rows(x, weight, bias)
    return out


def linear_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, *, impl: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `linear_rows` in ``x``, ``weight`` and bias; the last comes in the type of ``weight``.

    Shapes: ``grad`` (K, B, T) -> (K, B, F), (K, T, F), (K, T)
    """
    form = IMPLEMENTATIONS.choose(impl, lambda kernels: kernels.takes_back(x, weight))
    found: tuple[Tensor, Tensor, Tensor] = form.linear_gradients(grad, x, weight)
    return found


class _RunLinear(torch.autograd.Function):
    """K runs side by side: rows (K, B, F), weights (K, T, F), biases (K, T)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return linear_rows(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        # gradients of gradients are asked for: those of kernels are not known
        impl = "reference" if torch.is_grad_enabled() else None
        grad_x, grad_weight, grad_bias = linear_gradients(grad, *ctx.saved_tensors, impl=impl)
        return grad_x, grad_weight, grad_bias if ctx.needs_input_grad[2] else None
