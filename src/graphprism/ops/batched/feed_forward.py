"""The feed-forward block of K runs at once, between two batch normalisations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends, is_batched, plain_gradients
from graphprism.ops.batched.batch_norm import gradients_reference, normalise_reference
from graphprism.ops.batched.batched_linear import linear_gradients_reference, linear_rows_reference
from graphprism.ops.batched.vmap import for_all_runs

Pair = tuple[Tensor, Tensor]
Running = tuple[Tensor, Tensor, Tensor]
Maps = tuple[Tensor, Tensor, Tensor, Tensor]
Statistics = tuple[Tensor, Tensor, Tensor, Tensor]


def forward_reference(
    x: Tensor,
    counts: Tensor,
    norm_in: Pair,
    maps: Maps,
    norm_out: Pair,
    running_in: Running | None,
    running_out: Running | None,
    momenta: tuple[float, float],
    epsilons: tuple[float, float],
) -> tuple[Tensor, Tensor, Statistics]:
    """The definition; also returns the rows before the last norm, and mean and scale of both norms."""
    y, *first = normalise_reference(x, counts, *norm_in, running_in, momenta[0], epsilons[0])
    weight, bias, last_weight, last_bias = maps
    z = y + linear_rows_reference(linear_rows_reference(y, weight, bias).relu(), last_weight, last_bias)
    out, *last = normalise_reference(z, counts, *norm_out, running_out, momenta[1], epsilons[1])
    return out, z, (first[0], first[1], last[0], last[1])


def backward_reference(
    grad: Tensor,
    x: Tensor,
    z: Tensor,
    counts: Tensor,
    norm_in: Pair,
    maps: Maps,
    norm_out: Pair,
    stats: Statistics,
) -> tuple[Tensor, ...]:
    """One step back after another, with the rows between the norms computed again."""
    mean, scale, last_mean, last_scale = stats
    weight, bias, last_weight, _ = maps
    y = ((x - mean[:, None]) * (scale * norm_in[0])[:, None] + norm_in[1][:, None]).to(x.dtype)
    hidden = linear_rows_reference(y, weight, bias).relu()
    of_z, *of_out = gradients_reference(grad, z, counts, *norm_out, last_mean, last_scale)
    of_hidden, of_last_weight, _ = linear_gradients_reference(of_z, hidden, last_weight, False)
    of_hidden = torch.where(hidden > 0, of_hidden, 0)
    of_y, of_weight, _ = linear_gradients_reference(of_hidden, y, weight, False)
    of_x, *of_in = gradients_reference(of_z + of_y, x, counts, *norm_in, mean, scale)
    return of_x, *of_in, of_weight, of_hidden.sum(dim=1), of_last_weight, of_z.sum(dim=1), *of_out


FORWARD = Backends(reference=forward_reference, triton="graphprism.ops.kernels.feed_forward:forward")
BACKWARD = Backends(reference=backward_reference, triton="graphprism.ops.kernels.feed_forward:backward")


def _fits(x: Tensor) -> Callable[[ModuleType], bool]:
    """Whether kernels support rows (..., N, F)."""
    return lambda kernels: bool(kernels.takes(x.size(-1), x.size(-2), x.dtype, x.device))


def is_one_op(x: Tensor) -> bool:
    """Whether `run_feed_forward` is at least as fast as one op after another: not where a GPU lacks its kernels.

    Nor under autocast, which casts for each op.
    """
    if torch.is_autocast_enabled(x.device.type):
        return False
    if x.device.type == "cpu":
        return True
    return FORWARD.kernel_fits(x.device, _fits(x))


def run_feed_forward(
    x: Tensor,
    counts: Tensor,
    norm_in: Pair,
    maps: Maps,
    norm_out: Pair,
    running_in: Running,
    running_out: Running,
    momenta: tuple[float, float],
    epsilons: tuple[float, float],
) -> Tensor:
    r"""The block of `graphprism.nn.models.blocks.FeedForward` in training under `torch.vmap`, with ReLU.

    .. math:: \mathbf{y} = \mathrm{BN}_1(\mathbf{x}), \qquad \mathbf{x}' = \mathrm{BN}_2 \big( \mathbf{y} +
        \mathbf{W}_2 \max(0, \mathbf{W}_1 \mathbf{y} + \mathbf{b}_1) + \mathbf{b}_2 \big)

    Norms, weight and bias, are as in `run_batch_norm`; hidden rows are not kept for backward.

    Shapes: ``x`` (N, F), ``counts`` (N,), ``maps`` (H, F), (H,), (F, H), (F,) -> (N, F)
    """
    tensors = (*norm_in, *maps, *norm_out)
    out: Tensor = for_all_runs(_FeedForward, x, counts, *tensors, *running_in, *running_out, momenta, epsilons)
    return out


class _FeedForward(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: Tensor, *more: Any) -> Tensor:
        given, running, (momenta, ctx.epsilons) = more[:8], more[8:14], more[14:]
        forward = FORWARD.choose(None, x.device, _fits(x))
        norms = given[:2], given[2:6], given[6:]
        out, z, stats = forward(x, counts, *norms, running[:3], running[3:], momenta, ctx.epsilons)
        ctx.save_for_backward(x, z, counts, *given, *stats)
        found: Tensor = out
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, z, counts, *given = ctx.saved_tensors
        if torch.is_grad_enabled() or is_batched(grad):
            inputs = x, counts, *given[:8]
            return *plain_gradients(partial(_rows, ctx.epsilons), inputs, grad, ctx.needs_input_grad), *[None] * 8
        backward = BACKWARD.choose(None, x.device, _fits(x))
        parts = tuple(given[:2]), tuple(given[2:6]), tuple(given[6:8]), tuple(given[8:])
        grad_x, *found = backward(grad, x, z, counts, *parts)
        cast = (each.to(own.dtype) for each, own in zip(found, given, strict=False))
        return grad_x, None, *cast, *[None] * 8


def _rows(epsilons: tuple[float, float], x: Tensor, counts: Tensor, *given: Tensor) -> Tensor:
    """The rows of the definition alone."""
    in_weight, in_bias, weight, bias, last_weight, last_bias, out_weight, out_bias = given
    norm_in, maps, norm_out = (in_weight, in_bias), (weight, bias, last_weight, last_bias), (out_weight, out_bias)
    return forward_reference(x, counts, norm_in, maps, norm_out, None, None, (0.0, 0.0), epsilons)[0]
