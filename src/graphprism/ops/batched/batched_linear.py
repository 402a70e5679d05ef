"""A linear layer of K runs at once, each with its own weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.backends import Backends, is_batched
from graphprism.ops.batched import row_maps
from graphprism.ops.batched.row_maps import product_of_rows
from graphprism.ops.batched.slot_sum import gated_column_sum
from graphprism.ops.batched.vmap import for_all_runs, only_vmap


def linear_rows_reference(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The definition: one product for all runs and a sum, in float32 at least."""
    dtype = torch.promote_types(x.dtype, weight.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    out = torch.bmm(x.to(wide), weight.to(wide).transpose(1, 2))
    return (out if bias is None else out + bias[:, None].to(wide)).to(dtype)


def linear_gradients_reference(
    grad: Tensor, x: Tensor, weight: Tensor, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Two products and a sum over the rows."""
    wide = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    grad = grad.to(wide)
    grad_x = torch.bmm(grad, weight.to(wide))
    grad_weight = torch.bmm(grad.transpose(1, 2), x.to(wide))
    grad_bias = grad.sum(dim=1).to(weight.dtype) if needs_bias else None
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad_bias


def linear_rows_bmm(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One product in the common type, for matrix units, which accumulate in float32."""
    if x.dtype != weight.dtype:
        return linear_rows_reference(x, weight, bias)
    out = torch.bmm(x, weight.transpose(1, 2))
    return out if bias is None else out.add_(bias[:, None])


def linear_gradients_bmm(
    grad: Tensor, x: Tensor, weight: Tensor, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Two products in the common type, that of the weights in parts of the rows, and a column sum."""
    if x.dtype != weight.dtype or grad.dtype != x.dtype:
        return linear_gradients_reference(grad, x, weight, needs_bias)
    grad_bias = gated_column_sum(grad) if needs_bias else None
    return torch.bmm(grad, weight), product_of_rows(grad, x), grad_bias


def finish_reference(out: Tensor, bias: Tensor | None) -> None:
    """Adds the bias and applies ReLU, in place."""
    (out if bias is None else out.add_(bias[:, None])).relu_()


def gate_reference(grad: Tensor, out: Tensor, passed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The gradient where the output of ReLU is positive, written to ``passed`` if given, and its column sums."""
    found = torch.where(out > 0, grad, 0)
    found = found if passed is None else passed.copy_(found)
    return found, found.sum(dim=1)


FORWARD = Backends(
    automatic="bmm",
    reference=linear_rows_reference,
    bmm=linear_rows_bmm,
    triton="graphprism.ops.kernels.batched_linear:linear_rows",
)
BACKWARD = Backends(
    automatic="bmm",
    reference=linear_gradients_reference,
    bmm=linear_gradients_bmm,
    triton="graphprism.ops.kernels.batched_linear:linear_gradients",
)
FINISH = Backends(reference=finish_reference, triton="graphprism.ops.kernels.batched_linear:finish")
GATE = Backends(reference=gate_reference, triton="graphprism.ops.kernels.batched_linear:gate")


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """`torch.nn.functional.linear`, with ``relu`` followed by ReLU; under `torch.vmap` a few kernels for all runs.

    There every run has its own weights. A small layer, such as the head of a network, whose kernels take longer to
    launch than to run, is one kernel per pass.

    Shapes: ``x`` (..., F), ``weight`` (T, F), ``bias`` (T,) -> (..., T)

    >>> batched_linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([0.5]))
    tensor([[11.5000]])
    """
    if not only_vmap():
        out = torch.nn.functional.linear(x, weight, bias)
        return out.relu() if relu else out
    check_shape("weight", weight, ["T", x.size(-1)])
    if bias is not None:
        check_shape("bias", bias, [weight.size(0)])
    rows: Tensor = for_all_runs(_BatchedLinear, x.reshape(-1, x.size(-1)), weight, bias, relu)
    return rows.view(*x.shape[:-1], weight.size(0))


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    """The layer of every run, in the wider type of ``x`` and ``weight``, without autograd.

    Shapes: ``x`` (K, B, F), ``weight`` (K, T, F), ``bias`` (K, T) -> (K, B, T)
    """
    backend = FORWARD.choose(impl, x.device, lambda kernels: kernels.takes(x, weight))
    out: Tensor = backend(x, weight, bias)
    return out


def linear_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, needs_bias: bool = True, *, impl: str | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of `linear_rows` with respect to ``x``, ``weight`` and bias; the last has the type of ``weight``.

    Shapes: ``grad`` (K, B, T) -> (K, B, F), (K, T, F), (K, T)
    """
    backend = BACKWARD.choose(impl, x.device, lambda kernels: kernels.takes_back(x, weight))
    found: tuple[Tensor, Tensor, Tensor | None] = backend(grad, x, weight, needs_bias)
    return found


class _BatchedLinear(torch.autograd.Function):
    """K runs side by side: rows (K, B, F), weights (K, T, F), biases (K, T)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        maps = weight.transpose(1, 2)[:, None]
        ctx.by_rows = not FORWARD.kernel_fits(x.device, lambda kernels: kernels.takes(x, weight))
        ctx.by_rows = ctx.by_rows and row_maps.has_kernel(x, maps)
        if ctx.by_rows:
            out: Tensor = row_maps.FORWARD.choose("triton", x.device)(x, maps, bias, relu)
        else:
            out = linear_rows(x, weight, None if relu else bias)
            if relu:
                FINISH.choose(None, out.device)(out, bias)
        ctx.save_for_backward(x, weight, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        # for second derivatives and batched gradients, which kernels do not have
        impl = "reference" if torch.is_grad_enabled() or is_batched(grad) else None
        needs_bias = ctx.needs_input_grad[2]
        if ctx.by_rows and impl is None:
            backward = row_maps.BACKWARD.choose("triton", x.device)
            grad_x, grad_maps, grad_bias = backward(grad, x, weight.transpose(1, 2)[:, None], out, needs_bias)
            return grad_x, grad_maps[:, 0].transpose(1, 2), grad_bias, None
        if out is None:
            return *linear_gradients(grad, x, weight, needs_bias, impl=impl), None
        passed, columns = GATE.choose(impl, grad.device)(grad, out)
        grad_x, grad_weight, _ = linear_gradients(passed, x, weight, False, impl=impl)
        return grad_x, grad_weight, columns.to(weight.dtype) if needs_bias else None, None
