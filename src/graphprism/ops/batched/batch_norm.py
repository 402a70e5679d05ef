"""Batch normalisation of K runs at once, each with its own parameters and statistics."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends, is_batched, plain_gradients
from graphprism.ops.batched.vmap import for_all_runs


def normalise_reference(
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor] | None,
    momentum: float,
    eps: float,
    relu: bool = False,
    added: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The definition; returns rows, mean and inverse standard deviation (K, F). Updates given ``running`` in place."""
    wide = x if x.dtype == torch.float64 else x.float()
    chosen = (counts != 0).to(wide.dtype)[..., None]  # (K, N, 1)
    number = chosen.sum(dim=1)  # (K, 1)
    mean = (chosen * wide).sum(dim=1) / number.clamp(min=1)
    square = (chosen * (wide - mean[:, None]).square()).sum(dim=1)
    if running is not None:
        any_row = number != 0
        share = momentum * any_row
        for target, value in zip(running, (mean, square / (number - 1).clamp(min=1)), strict=False):
            target.mul_(1 - share).add_(share * value)
        running[2].add_(any_row[:, 0])
    scale = (square / number.clamp(min=1) + eps).rsqrt()
    out = (wide - mean[:, None]) * (scale * weight)[:, None] + bias[:, None]
    out = out.relu() if relu else out
    out = out if added is None else out + added.to(out.dtype)
    return out.to(x.dtype), mean, scale


def gradients_reference(
    grad: Tensor,
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    scale: Tensor,
    relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows, weight and bias: all rows are normalised, only rows that count affect the statistics."""
    wide = grad.to(mean.dtype)
    normal = (x.to(mean.dtype) - mean[:, None]) * scale[:, None]
    if relu:
        wide = torch.where((x.to(mean.dtype) - mean[:, None]) * (scale * weight)[:, None] + bias[:, None] > 0, wide, 0)
    grad_weight, grad_bias = (wide * normal).sum(dim=1), wide.sum(dim=1)
    chosen = (counts != 0).to(mean.dtype)[..., None]
    share = chosen / chosen.sum(dim=1, keepdim=True).clamp(min=1)
    inner = wide - share * (grad_bias[:, None] + normal * grad_weight[:, None])
    return (inner * (scale * weight)[:, None]).to(x.dtype), grad_weight, grad_bias


NORMALISE = Backends(reference=normalise_reference, triton="graphprism.ops.kernels.batch_norm:normalise")
GRADIENTS = Backends(reference=gradients_reference, triton="graphprism.ops.kernels.batch_norm:gradients")


def run_batch_norm(
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor],
    momentum: float,
    eps: float,
    relu: bool = False,
    added: Tensor | None = None,
) -> Tensor:
    """Batch normalisation in training under `torch.vmap`: two kernels per pass for all runs.

    Statistics are those of the rows where ``counts`` is not zero; all rows are normalised. ``running`` are mean,
    variance and number of batches, which are updated in place if any row counts. With ``relu``, ReLU follows; then
    ``added`` is added.

    Shapes: ``x`` (N, F), ``counts`` (N,), ``weight`` and ``bias`` (F,), ``added`` (N, F) -> (N, F)
    """
    out: Tensor = for_all_runs(_BatchNorm, x, counts, weight, bias, added, *running, momentum, eps, relu)
    return out


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, added: Tensor | None, *more: Any
    ) -> Tensor:
        *running, momentum, ctx.eps, ctx.relu = more
        normalise = NORMALISE.choose(None, x.device)
        out, mean, scale = normalise(x, counts, weight, bias, tuple(running), momentum, ctx.eps, ctx.relu, added)
        ctx.save_for_backward(x, counts, weight, bias, mean, scale)
        found: Tensor = out
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, counts, weight, bias, mean, scale = ctx.saved_tensors
        of_added = grad if ctx.needs_input_grad[4] else None
        if torch.is_grad_enabled() or is_batched(grad):
            normalise = partial(_normalised, eps=ctx.eps, relu=ctx.relu)
            found = plain_gradients(normalise, (x, counts, weight, bias), grad, ctx.needs_input_grad)
            return *found, of_added, *[None] * 6
        gradients = GRADIENTS.choose(None, grad.device)
        grad_x, grad_weight, grad_bias = gradients(grad, x, counts, weight, bias, mean, scale, ctx.relu)
        return grad_x, None, grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), of_added, *[None] * 6


def _normalised(x: Tensor, counts: Tensor, weight: Tensor, bias: Tensor, eps: float, relu: bool) -> Tensor:
    """The rows of the definition alone."""
    return normalise_reference(x, counts, weight, bias, None, 0.0, eps, relu)[0]
