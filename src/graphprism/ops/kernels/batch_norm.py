"""Batch normalisation of runs as Triton kernels, two each way: sums of parts of the rows, then what needs them.

A program of the first kernel has a part of the rows and a few channels of one run. One of the second adds up what all
of them found, which is little, and goes over the same rows. On an H200, nine runs of 3,008 rows and 112 channels:
programs with all rows of eight channels took 17 us forward and 26 back, most of it waiting.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, power_of_2_from, rows_of_runs

# Rows that a program looks at once, channels side by side, and parts of the rows at most.
_ROWS, _BLOCK, _PARTS = 64, 32, 32
# Mean, variance and number of batches.
Running = tuple[Tensor, Tensor, Tensor]


@triton.jit
def _moments_kernel(
    x, counts, numbers, sums, squares, num_rows, channels, counts_stride, length,
    SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Number, sum, and squares around the own mean, of the rows of a part that count."""
    run, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    x, counts = x + run * num_rows * channels, counts + run * counts_stride
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    begin = part * length
    end = tl.minimum(begin + length, num_rows)
    number = tl.zeros((1,), dtype=SUM)
    total = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        counted = tl.load(counts + row, mask=row < end, other=0) != 0
        wanted = counted[:, None] & inside[None, :]
        total += tl.sum(tl.load(x + row[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM), axis=0)
        number += tl.sum(counted.to(SUM), axis=0)
    mean = total / tl.maximum(number, 1.0)
    square = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        counted = tl.load(counts + row, mask=row < end, other=0) != 0
        wanted = counted[:, None] & inside[None, :]
        entry = tl.load(x + row[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        apart = tl.where(wanted, entry - mean[None, :], 0.0)
        square += tl.sum(apart * apart, axis=0)
    place = run * tl.num_programs(0) + part
    tl.store(sums + place * channels + channel, total, mask=inside)
    tl.store(squares + place * channels + channel, square, mask=inside)
    is_first = (tl.program_id(2) + tl.arange(0, 1)) == 0
    tl.store(numbers + place + tl.arange(0, 1), number, mask=is_first)


@triton.jit
def statistics(numbers, sums, squares, run, channel, num_parts, channels, PARTS: tl.constexpr):
    """Number, mean and squares around it of all rows of a run that count, from those of its parts."""
    part = tl.arange(0, PARTS)
    found = tl.load(numbers + run * num_parts + part, mask=part < num_parts, other=0.0)
    wanted = (part < num_parts)[:, None] & (channel < channels)[None, :]
    place = (run * num_parts + part)[:, None] * channels + channel[None, :]
    total = tl.load(sums + place, mask=wanted, other=0.0)
    number = tl.sum(found, axis=0)
    mean = tl.sum(total, axis=0) / tl.maximum(number, 1.0)
    between = total / tl.maximum(found, 1.0)[:, None] - mean[None, :]
    square = tl.load(squares + place, mask=wanted, other=0.0) + found[:, None] * between * between
    return number, mean, tl.sum(square, axis=0)


@triton.jit
def keep_statistics(
    running_mean, running_var, batches, mean_out, scale_out, run, channel, channels, number, mean, square, scale,
    momentum, is_first,
):  # fmt: skip
    """Stores mean and scale, and updates the running statistics unless no row counts."""
    inside = channel < channels
    place = run * channels + channel
    share = tl.where(number != 0, momentum, 0.0)
    old = tl.load(running_mean + place, mask=inside, other=0.0).to(mean.dtype)
    new = (1 - share) * old + share * mean
    tl.store(running_mean + place, new.to(running_mean.dtype.element_ty), mask=inside)
    old = tl.load(running_var + place, mask=inside, other=0.0).to(mean.dtype)
    new = (1 - share) * old + share * (square / tl.maximum(number - 1, 1.0))
    tl.store(running_var + place, new.to(running_var.dtype.element_ty), mask=inside)
    tl.store(mean_out + place, mean, mask=inside)
    tl.store(scale_out + place, scale, mask=inside)
    if is_first:
        tl.store(batches + run, tl.load(batches + run) + (number != 0).to(tl.int64))


@triton.jit
def _normalise_kernel(
    x, weight, bias, numbers, sums, squares, running_mean, running_var, batches, added, out, mean_out, scale_out,
    num_rows, channels, weight_stride, bias_stride, length, num_parts,
    MOMENTUM: tl.constexpr, EPS: tl.constexpr, RELU: tl.constexpr, ADDS: tl.constexpr, SUM: tl.constexpr,
    PARTS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # constants: as arguments they are float32, which is far from 1e-5 in float64
    momentum, eps = tl.full((), MOMENTUM, SUM), tl.full((), EPS, SUM)
    run = tl.program_id(1).to(tl.int64)
    first_entry = run * num_rows * channels
    x, out = x + first_entry, out + first_entry
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    number, mean, square = statistics(numbers, sums, squares, run, channel, num_parts, channels, PARTS)
    scale = 1.0 / tl.sqrt(square / tl.maximum(number, 1.0) + eps)
    if tl.program_id(0) == 0:
        keep_statistics(
            running_mean, running_var, batches, mean_out, scale_out, run, channel, channels, number, mean, square,
            scale, momentum, tl.program_id(2) == 0,
        )  # fmt: skip
    factor = scale * tl.load(weight + run * weight_stride + channel, mask=inside, other=0.0).to(SUM)
    shift = tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)
    begin = tl.program_id(0) * length
    end = tl.minimum(begin + length, num_rows)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < end)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        normal = (entry - mean[None, :]) * factor[None, :] + shift[None, :]
        if RELU:
            normal = tl.where(normal < 0, 0.0, normal)  # a comparison, so that NaN stays NaN
        if ADDS:
            normal += tl.load(added + first_entry + address, mask=there, other=0.0).to(SUM)
        tl.store(out + address, normal.to(out.dtype.element_ty), mask=there)


@triton.jit
def _slopes_kernel(
    grad, x, counts, weight, bias, mean, scale, numbers, of_weights, of_biases, num_rows, channels, counts_stride,
    weight_stride, bias_stride, length,
    RELU: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The part of a few rows in the gradients of weight and bias, and how many of them count."""
    run, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    grad, x, counts = grad + run * num_rows * channels, x + run * num_rows * channels, counts + run * counts_stride
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    middle = tl.load(mean + run * channels + channel, mask=inside, other=0.0)
    factor = tl.load(scale + run * channels + channel, mask=inside, other=0.0)
    outer = factor * tl.load(weight + run * weight_stride + channel, mask=inside, other=0.0).to(SUM)
    shift = tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)
    begin = part * length
    end = tl.minimum(begin + length, num_rows)
    number = tl.zeros((1,), dtype=SUM)
    of_weight = tl.zeros((BLOCK,), dtype=SUM)
    of_bias = tl.zeros((BLOCK,), dtype=SUM)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < end)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        g = tl.load(grad + address, mask=there, other=0.0).to(SUM)
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        normal = (entry - middle[None, :]) * factor[None, :]
        if RELU:
            g = tl.where((entry - middle[None, :]) * outer[None, :] + shift[None, :] > 0, g, 0.0)
        of_weight += tl.sum(tl.where(there, g * normal, 0.0), axis=0)
        of_bias += tl.sum(g, axis=0)
        number += tl.sum((tl.load(counts + row, mask=row < end, other=0) != 0).to(SUM), axis=0)
    place = run * tl.num_programs(0) + part
    tl.store(of_weights + place * channels + channel, of_weight, mask=inside)
    tl.store(of_biases + place * channels + channel, of_bias, mask=inside)
    is_first = (tl.program_id(2) + tl.arange(0, 1)) == 0
    tl.store(numbers + place + tl.arange(0, 1), number, mask=is_first)


@triton.jit
def summed_slopes(numbers, of_weights, of_biases, run, channel, num_parts, channels, PARTS: tl.constexpr):
    """Number of rows that count, and gradients of weight and bias, from those of the parts of a run."""
    part = tl.arange(0, PARTS)
    wanted = (part < num_parts)[:, None] & (channel < channels)[None, :]
    place = (run * num_parts + part)[:, None] * channels + channel[None, :]
    number = tl.sum(tl.load(numbers + run * num_parts + part, mask=part < num_parts, other=0.0), axis=0)
    of_weight = tl.sum(tl.load(of_weights + place, mask=wanted, other=0.0), axis=0)
    return number, of_weight, tl.sum(tl.load(of_biases + place, mask=wanted, other=0.0), axis=0)


@triton.jit
def _gradients_kernel(
    grad, x, counts, weight, bias, mean, scale, numbers, of_weights, of_biases, grad_x, grad_weight, grad_bias,
    num_rows, channels, counts_stride, weight_stride, bias_stride, length, num_parts,
    RELU: tl.constexpr, SUM: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    grad, x, grad_x = (
        grad + run * num_rows * channels, x + run * num_rows * channels, grad_x + run * num_rows * channels,
    )  # fmt: skip
    counts += run * counts_stride
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    number, of_weight, of_bias = summed_slopes(
        numbers, of_weights, of_biases, run, channel, num_parts, channels, PARTS
    )  # fmt: skip
    place = run * channels + channel
    if tl.program_id(0) == 0:
        tl.store(grad_weight + place, of_weight, mask=inside)
        tl.store(grad_bias + place, of_bias, mask=inside)
    middle = tl.load(mean + place, mask=inside, other=0.0)
    factor = tl.load(scale + place, mask=inside, other=0.0)
    outer = factor * tl.load(weight + run * weight_stride + channel, mask=inside, other=0.0).to(SUM)
    shift = tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)
    share = 1.0 / tl.maximum(number, 1.0)
    begin = tl.program_id(0) * length
    end = tl.minimum(begin + length, num_rows)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < end)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        g = tl.load(grad + address, mask=there, other=0.0).to(SUM)
        entry = tl.load(x + address, mask=there, other=0.0).to(SUM)
        normal = (entry - middle[None, :]) * factor[None, :]
        if RELU:
            g = tl.where((entry - middle[None, :]) * outer[None, :] + shift[None, :] > 0, g, 0.0)
        counted = tl.load(counts + row, mask=row < end, other=0) != 0
        moved = (of_bias[None, :] + normal * of_weight[None, :]) * share
        new = (g - tl.where(counted[:, None], moved, 0.0)) * outer[None, :]
        tl.store(grad_x + address, new.to(grad_x.dtype.element_ty), mask=there)


class Parts(NamedTuple):
    """What programs found in parts of the rows of each run: how many rows count (K, P), and two sums (K, P, F)."""

    numbers: Tensor
    first: Tensor
    second: Tensor

    @staticmethod
    def empty(like: Tensor, number: int) -> Parts:
        """Uninitialised, for statistics ``like`` (K, F)."""
        num_runs, channels = like.shape
        first, second = (like.new_empty(num_runs, number, channels) for _ in range(2))
        return Parts(like.new_empty(num_runs, number), first, second)

    @property
    def number(self) -> int:
        """P."""
        return self.numbers.size(1)


def normalise(
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: Running,
    momentum: float,
    eps: float,
    relu: bool = False,
    added: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Two kernels; running statistics must be (K, F) in a row."""
    x = x.contiguous()
    return normalise_parts(x, moments(x, counts), weight, bias, running, momentum, eps, relu, added)


def moments(x: Tensor, counts: Tensor) -> Parts:
    """Sums, and squares around the own mean, of parts of contiguous rows."""
    counts = rows_of_runs(counts)
    grid, length, sizes = _parts(x)
    like = x.new_empty(x.size(0), x.size(2), dtype=torch.promote_types(x.dtype, torch.float32))
    found = Parts.empty(like, grid[0])
    _moments_kernel[grid](x, counts, *found, *x.shape[1:], counts.stride(0), length, **sizes, num_warps=8)
    return found


def normalise_parts(
    x: Tensor,
    parts: Parts,
    weight: Tensor,
    bias: Tensor,
    running: Running,
    momentum: float,
    eps: float,
    relu: bool = False,
    added: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The second kernel of `normalise`, for contiguous rows; the moments may be of other parts."""
    check_running(running)
    num_runs, num_rows, channels = x.shape
    weight, bias, added = rows_of_runs(weight), rows_of_runs(bias), None if added is None else added.contiguous()
    out, mean = torch.empty_like(x), parts.first.new_empty(num_runs, channels)
    scale = torch.empty_like(mean)
    grid, length, sizes = _parts(x)
    _normalise_kernel[grid](
        x, weight, bias, *parts, *running, added, out, mean, scale,
        num_rows, channels, weight.stride(0), bias.stride(0), length, parts.number,
        MOMENTUM=float(momentum), EPS=float(eps), RELU=relu, ADDS=added is not None,
        PARTS=power_of_2_from(parts.number), **sizes, num_warps=8,
    )  # fmt: skip
    return out, mean, scale


def gradients(
    grad: Tensor,
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    scale: Tensor,
    relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Two kernels."""
    grad, x = grad.contiguous(), x.contiguous()
    parts = slopes(grad, x, counts, weight, bias, mean, scale, relu)
    return gradients_of_parts(grad, x, counts, parts, weight, bias, mean, scale, relu)


def slopes(
    grad: Tensor,
    x: Tensor,
    counts: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    scale: Tensor,
    relu: bool = False,
) -> Parts:
    """Gradients of weight and bias from parts of contiguous rows."""
    counts, weight, bias = rows_of_runs(counts), rows_of_runs(weight), rows_of_runs(bias)
    grid, length, sizes = _parts(x)
    found = Parts.empty(mean, grid[0])
    _slopes_kernel[grid](
        grad, x, counts, weight, bias, mean, scale, *found,
        *x.shape[1:], counts.stride(0), weight.stride(0), bias.stride(0), length, RELU=relu, **sizes, num_warps=8,
    )  # fmt: skip
    return found


def gradients_of_parts(
    grad: Tensor,
    x: Tensor,
    counts: Tensor,
    parts: Parts,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    scale: Tensor,
    relu: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The second kernel of `gradients`, for contiguous rows; the slopes may be of other parts."""
    counts, weight, bias = rows_of_runs(counts), rows_of_runs(weight), rows_of_runs(bias)
    grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(mean), torch.empty_like(mean)
    grid, length, sizes = _parts(x)
    _gradients_kernel[grid](
        grad, x, counts, weight, bias, mean, scale, *parts, grad_x, grad_weight, grad_bias,
        *x.shape[1:], counts.stride(0), weight.stride(0), bias.stride(0), length, parts.number,
        RELU=relu, PARTS=power_of_2_from(parts.number), **sizes, num_warps=8,
    )  # fmt: skip
    return grad_x, grad_weight, grad_bias


def check_running(running: Running) -> None:
    """Raises unless mean, variance and number of batches of all runs are in a row."""
    if not all(each.is_contiguous() for each in running):
        raise ValueError("running statistics of runs must stand one after another")


def _parts(x: Tensor) -> tuple[tuple[int, int, int], int, dict[str, Any]]:
    """The programs of a launch, (parts, runs, blocks of channels), rows of a part, and what the compiler knows."""
    num_runs, num_rows, channels = x.shape
    rows, block = min(_ROWS, max(16, power_of_2_from(num_rows))), min(_BLOCK, power_of_2_from(channels))
    length = rows * ceil_div(ceil_div(num_rows, rows), _PARTS)
    grid = max(1, ceil_div(num_rows, max(1, length))), num_runs, ceil_div(channels, block)
    return grid, length, {"SUM": _wide(x), "ROWS": rows, "BLOCK": block}


def _wide(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32
