"""A linear layer of K runs at once, each with weights of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.backends import Backends
from graphprism.ops.batched.vmap import for_all_runs, only_vmap


def linear_rows_reference(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The definition: one product for all runs and a sum, in float32 at least."""
    dtype = torch.promote_types(x.dtype, weight.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    out = torch.bmm(x.to(wide), weight.to(wide).transpose(1, 2))
    return (out if bias is None else out + bias[:, None].to(wide)).to(dtype)


def linear_gradients_reference(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two products and a sum over the rows."""
    wide = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    grad = grad.to(wide)
    grad_x = torch.bmm(grad, weight.to(wide))
    grad_weight = torch.bmm(grad.transpose(1, 2), x.to(wide))
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad.sum(dim=1).to(weight.dtype)


FORWARD = Backends(reference=linear_rows_reference, triton="graphprism.ops.kernels.batched_linear:linear_rows")
BACKWARD = Backends(
    reference=linear_gradients_reference, triton="graphprism.ops.kernels.batched_linear:linear_gradients"
)


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`; under `torch.vmap` one kernel each way, where every run has weights of its own.

    Meant for few outputs and few rows, such as a network's head, where kernels take longer to start than to run.

    Shapes: ``x`` (..., F), ``weight`` (T, F), ``bias`` (T,) -> (..., T)

    >>> batched_linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([0.5]))
    tensor([[11.5000]])
    """
    if not only_vmap():
        return torch.nn.functional.linear(x, weight, bias)
    check_shape("weight", weight, ["T", x.size(-1)])
    if bias is not None:
        check_shape("bias", bias, [weight.size(0)])
    out: Tensor = for_all_runs(_BatchedLinear, x.reshape(-1, x.size(-1)), weight, bias)
    return out.view(*x.shape[:-1], weight.size(0))


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    """The layer of every run, in the wider type of ``x`` and ``weight``, without autograd.

    Shapes: ``x`` (K, B, F), ``weight`` (K, T, F), ``bias`` (K, T) -> (K, B, T)
    """
    backend = FORWARD.choose(impl, x.device, lambda kernels: kernels.takes(x, weight))
    out: Tensor = backend(x, weight, bias)
    return out


def linear_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, *, impl: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `linear_rows` in ``x``, ``weight`` and bias; the last comes in the type of ``weight``.

    Shapes: ``grad`` (K, B, T) -> (K, B, F), (K, T, F), (K, T)
    """
    backend = BACKWARD.choose(impl, x.device, lambda kernels: kernels.takes_back(x, weight))
    found: tuple[Tensor, Tensor, Tensor] = backend(grad, x, weight)
    return found


class _BatchedLinear(torch.autograd.Function):
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
