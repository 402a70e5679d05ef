"""Batch normalisation of many runs as Triton kernels: a program processes all rows of a few channels of one run."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Channels of a program, a sector of memory in float32, and rows that it looks at once: those of a batch of molecules.
_BLOCK = 8
_ROWS = 1024


@triton.jit
def _normalise_kernel(
    x, counts, weight, bias, running_mean, running_var, batches, out, mean_out, scale_out,
    num_rows, channels, counts_stride, weight_stride, bias_stride,
    MOMENTUM: tl.constexpr, EPS: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # constants: as arguments they are float32, which is far from 1e-5 in float64
    momentum, eps = tl.full((), MOMENTUM, SUM), tl.full((), EPS, SUM)
    run = tl.program_id(1).to(tl.int64)
    x, out = x + run * num_rows * channels, out + run * num_rows * channels
    counts += run * counts_stride
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    number = tl.zeros((1,), dtype=SUM)
    total = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        counted = tl.load(counts + row, mask=row < num_rows, other=0) != 0
        wanted = counted[:, None] & inside[None, :]
        total += tl.sum(tl.load(x + row[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM), axis=0)
        number += tl.sum(counted.to(SUM), axis=0)
    mean = total / tl.maximum(number, 1.0)
    square = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        counted = tl.load(counts + row, mask=row < num_rows, other=0) != 0
        wanted = counted[:, None] & inside[None, :]
        entry = tl.load(x + row[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        apart = tl.where(wanted, entry - mean[None, :], 0.0)
        square += tl.sum(apart * apart, axis=0)
    place = run * channels + channel
    share = tl.where(number != 0, momentum, 0.0)
    old = tl.load(running_mean + place, mask=inside, other=0.0).to(SUM)
    new = (1 - share) * old + share * mean
    tl.store(running_mean + place, new.to(running_mean.dtype.element_ty), mask=inside)
    old = tl.load(running_var + place, mask=inside, other=0.0).to(SUM)
    new = (1 - share) * old + share * (square / tl.maximum(number - 1, 1.0))
    tl.store(running_var + place, new.to(running_var.dtype.element_ty), mask=inside)
    one = run + tl.arange(0, 1)
    is_first = (tl.program_id(0) + tl.arange(0, 1)) == 0
    seen = tl.load(batches + one, mask=is_first, other=0)
    tl.store(batches + one, seen + (number != 0).to(tl.int64), mask=is_first)
    scale = 1.0 / tl.sqrt(square / tl.maximum(number, 1.0) + eps)
    tl.store(mean_out + place, mean, mask=inside)
    tl.store(scale_out + place, scale, mask=inside)
    factor = scale * tl.load(weight + run * weight_stride + channel, mask=inside, other=0.0).to(SUM)
    shift = tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < num_rows)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        # another name than above: what a loop assigns keeps one shape
        normal = (entry - mean[None, :]) * factor[None, :] + shift[None, :]
        tl.store(out + address, normal.to(out.dtype.element_ty), mask=there)


@triton.jit
def _gradients_kernel(
    grad, x, counts, weight, mean, scale, grad_x, grad_weight, grad_bias,
    num_rows, channels, counts_stride, weight_stride,
    SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    grad, x, grad_x = (
        grad + run * num_rows * channels, x + run * num_rows * channels, grad_x + run * num_rows * channels,
    )  # fmt: skip
    counts += run * counts_stride
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    place = run * channels + channel
    middle = tl.load(mean + place, mask=inside, other=0.0)
    factor = tl.load(scale + place, mask=inside, other=0.0)
    number = tl.zeros((1,), dtype=SUM)
    of_weight = tl.zeros((BLOCK,), dtype=SUM)
    of_bias = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < num_rows)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        g = tl.load(grad + address, mask=there, other=0.0).to(SUM)
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        normal = (entry - middle[None, :]) * factor[None, :]
        of_weight += tl.sum(tl.where(there, g * normal, 0.0), axis=0)
        of_bias += tl.sum(g, axis=0)
        counted = tl.load(counts + row, mask=row < num_rows, other=0) != 0
        number += tl.sum(counted.to(SUM), axis=0)
    tl.store(grad_weight + place, of_weight, mask=inside)
    tl.store(grad_bias + place, of_bias, mask=inside)
    outer = factor * tl.load(weight + run * weight_stride + channel, mask=inside, other=0.0).to(SUM)
    share = 1.0 / tl.maximum(number, 1.0)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < num_rows)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        g = tl.load(grad + address, mask=there, other=0.0).to(SUM)
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        normal = (entry - middle[None, :]) * factor[None, :]
        counted = tl.load(counts + row, mask=row < num_rows, other=0) != 0
        moved = (of_bias[None, :] + normal * of_weight[None, :]) * share[:, None]
        new = (g - tl.where(counted[:, None], moved, 0.0)) * outer[None, :]
        tl.store(grad_x + address, new.to(grad_x.dtype.element_ty), mask=there)


def normalise(
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: tuple[Tensor, Tensor, Tensor],
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Launches one program per run and few channels; running statistics must be contiguous (K, F)."""
    num_runs, num_rows, channels = x.shape
    mean_, var, batches = running
    if not (mean_.is_contiguous() and var.is_contiguous() and batches.is_contiguous()):
        raise ValueError("running statistics of runs must stand one after another")
    x, counts, weight, bias = x.contiguous(), _rows(counts), _rows(weight), _rows(bias)
    out = torch.empty_like(x)
    mean = x.new_empty(num_runs, channels, dtype=torch.promote_types(x.dtype, torch.float32))
    scale = torch.empty_like(mean)
    _normalise_kernel[_grid(x)](
        x, counts, weight, bias, mean_, var, batches, out, mean, scale,
        num_rows, channels, counts.stride(0), weight.stride(0), bias.stride(0),
        MOMENTUM=float(momentum), EPS=float(eps), SUM=_wide(x), ROWS=_tile(num_rows), BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
    return out, mean, scale


def gradients(
    grad: Tensor, x: Tensor, counts: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Launches one program per run and few channels."""
    _, num_rows, channels = x.shape
    grad, x, counts, weight = grad.contiguous(), x.contiguous(), _rows(counts), _rows(weight)
    grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(mean), torch.empty_like(mean)
    _gradients_kernel[_grid(x)](
        grad, x, counts, weight, mean, scale, grad_x, grad_weight, grad_bias,
        num_rows, channels, counts.stride(0), weight.stride(0),
        SUM=_wide(x), ROWS=_tile(num_rows), BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
    return grad_x, grad_weight, grad_bias


def _rows(table: Tensor) -> Tensor:
    """One contiguous row per run; booleans as bytes, which kernels can load."""
    table = table.view(torch.uint8) if table.dtype == torch.bool else table
    return table if table.stride(-1) == 1 else table.contiguous()


def _grid(x: Tensor) -> tuple[int, int]:
    return triton.cdiv(x.size(2), _BLOCK), x.size(0)


def _tile(num_rows: int) -> int:
    return min(_ROWS, max(16, triton.next_power_of_2(num_rows)))


def _wide(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32
