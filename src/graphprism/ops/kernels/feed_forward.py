"""The feed-forward block of many runs between two batch normalisations as Triton kernels, three forward, four back.

A program of the middle kernel of each pass has a few rows of one run and all of their channels: it normalises them on
the way in, applies both maps without writing the hidden rows, and leaves the sums that the next kernel needs. Backward
computes the hidden rows again. For four runs of 800 rows and 64 channels one kernel per operation was 21 launches, most
of them shorter than their latency.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, dot_precision, packed_runs, power_of_2_from, rows_of_runs
from graphprism.ops.kernels.batch_norm import (
    Parts,
    Running,
    check_running,
    gradients_of_parts,
    keep_statistics,
    moments,
    normalise_parts,
    slopes,
    statistics,
    summed_slopes,
)
from graphprism.ops.kernels.row_maps import sum_parts

# Numbers of rows, and hidden channels, that a program has at once; channels and rows of a run that it takes, at most:
# all channels are in registers, and every program reads what all others of its run found.
_TILE, _HIDDEN, _MOST_CHANNELS, _MOST_ROWS = 2048, 32, 128, 8192
# Numbers, for each run, of the gradients of both maps from all programs, at most: 64 MB.
_MOST_PARTS = 1 << 24
# Bytes of fast memory that a program needs, at most; Turing GPUs have less.
_SHARED = 84 << 10


@triton.jit
def _maps_kernel(
    x, counts, in_weight, in_bias, weight_1, bias_1, weight_2, bias_2, numbers, sums, squares,
    running_mean, running_var, batches, mean_out, scale_out, out, numbers_out, sums_out, squares_out,
    num_rows, channels, hidden, num_parts, counts_stride, in_weight_stride, in_bias_stride,
    weight_1_stride, bias_1_stride, weight_2_stride, bias_2_stride,
    MOMENTUM: tl.constexpr, EPS: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    run, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < channels
    number, mean, square = statistics(numbers, sums, squares, run, channel, num_parts, channels, PARTS)
    scale = 1.0 / tl.sqrt(square / tl.maximum(number, 1.0) + EPS)
    if part == 0:
        keep_statistics(
            running_mean, running_var, batches, mean_out, scale_out, run, channel, channels, number, mean, square,
            scale, MOMENTUM, True,
        )  # fmt: skip
    factor = scale * tl.load(in_weight + run * in_weight_stride + channel, mask=inside, other=0.0)
    shift = tl.load(in_bias + run * in_bias_stride + channel, mask=inside, other=0.0)
    row = part * ROWS + tl.arange(0, ROWS)
    there = (row < num_rows)[:, None] & inside[None, :]
    address = (run * num_rows + row)[:, None] * channels + channel[None, :]
    entry = tl.load(x + address, mask=there, other=0.0)
    y = tl.where(there, (entry - mean[None, :]) * factor[None, :] + shift[None, :], 0.0)
    z = y + tl.load(bias_2 + run * bias_2_stride + channel, mask=inside, other=0.0)[None, :]
    weight_1, weight_2, bias_1 = (
        weight_1 + run * weight_1_stride, weight_2 + run * weight_2_stride, bias_1 + run * bias_1_stride,
    )  # fmt: skip
    for first in range(0, hidden, HIDDEN):
        unit = first + tl.arange(0, HIDDEN)
        known = unit < hidden
        w = tl.load(
            weight_1 + unit[:, None] * channels + channel[None, :], mask=known[:, None] & inside[None, :], other=0.0
        )
        h = tl.dot(y, tl.trans(w), input_precision=PRECISION)
        h += tl.load(bias_1 + unit, mask=known, other=0.0)[None, :]
        h = tl.where(h < 0, 0.0, h)  # a comparison, so that NaN stays NaN
        w = tl.load(
            weight_2 + channel[:, None] * hidden + unit[None, :], mask=inside[:, None] & known[None, :], other=0.0
        )
        z += tl.dot(h, tl.trans(w), input_precision=PRECISION)
    tl.store(out + address, z, mask=there)
    counted = tl.load(counts + run * counts_stride + row, mask=row < num_rows, other=0) != 0
    wanted = counted[:, None] & inside[None, :]
    number = tl.sum(counted.to(tl.float32), axis=0)
    total = tl.sum(tl.where(wanted, z, 0.0), axis=0)
    apart = tl.where(wanted, z - (total / tl.maximum(number, 1.0))[None, :], 0.0)
    place = run * tl.num_programs(0) + part
    tl.store(numbers_out + place, number)
    tl.store(sums_out + place * channels + channel, total, mask=inside)
    tl.store(squares_out + place * channels + channel, tl.sum(apart * apart, axis=0), mask=inside)


@triton.jit
def _maps_back_kernel(
    grad, z, x, counts, in_weight, in_bias, weight_1, bias_1, weight_2, out_weight, in_mean, in_scale,
    out_mean, out_scale, numbers, of_weights, of_biases, grad_out_weight, grad_out_bias, back,
    numbers_in, of_weights_in, of_biases_in, totals, num_rows, channels, hidden, num_parts, counts_stride,
    in_weight_stride, in_bias_stride, weight_1_stride, bias_1_stride, weight_2_stride, out_weight_stride,
    PARTS: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    run, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    channel = tl.arange(0, BLOCK)
    inside = channel < channels
    own = run * channels + channel
    # back through the last normalisation
    number, of_weight, of_bias = summed_slopes(
        numbers, of_weights, of_biases, run, channel, num_parts, channels, PARTS
    )  # fmt: skip
    if part == 0:
        tl.store(grad_out_weight + own, of_weight, mask=inside)
        tl.store(grad_out_bias + own, of_bias, mask=inside)
    row = part * ROWS + tl.arange(0, ROWS)
    there = (row < num_rows)[:, None] & inside[None, :]
    address = (run * num_rows + row)[:, None] * channels + channel[None, :]
    counted = tl.load(counts + run * counts_stride + row, mask=row < num_rows, other=0) != 0
    scale = tl.load(out_scale + own, mask=inside, other=0.0)
    normal = tl.load(z + address, mask=there, other=0.0) - tl.load(out_mean + own, mask=inside, other=0.0)[None, :]
    normal *= scale[None, :]
    moved = (of_bias[None, :] + normal * of_weight[None, :]) / tl.maximum(number, 1.0)
    outer = scale * tl.load(out_weight + run * out_weight_stride + channel, mask=inside, other=0.0)
    g = tl.load(grad + address, mask=there, other=0.0) - tl.where(counted[:, None], moved, 0.0)
    g = tl.where(there, g * outer[None, :], 0.0)
    # the rows between the normalisations, as forward had them
    scale = tl.load(in_scale + own, mask=inside, other=0.0)
    apart = tl.load(x + address, mask=there, other=0.0) - tl.load(in_mean + own, mask=inside, other=0.0)[None, :]
    factor = scale * tl.load(in_weight + run * in_weight_stride + channel, mask=inside, other=0.0)
    shift = tl.load(in_bias + run * in_bias_stride + channel, mask=inside, other=0.0)
    y = tl.where(there, apart * factor[None, :] + shift[None, :], 0.0)
    weight_1, weight_2, bias_1 = (
        weight_1 + run * weight_1_stride, weight_2 + run * weight_2_stride, bias_1 + run * bias_1_stride,
    )  # fmt: skip
    # gradients of both matrices and both biases, in this order
    size = hidden * channels
    totals += (run * tl.num_programs(0) + part) * (2 * size + hidden + channels)
    total = g
    for first in range(0, hidden, HIDDEN):
        unit = first + tl.arange(0, HIDDEN)
        known = unit < hidden
        place_1, inside_1 = unit[:, None] * channels + channel[None, :], known[:, None] & inside[None, :]
        place_2, inside_2 = channel[:, None] * hidden + unit[None, :], inside[:, None] & known[None, :]
        w = tl.load(weight_1 + place_1, mask=inside_1, other=0.0)
        h = tl.dot(y, tl.trans(w), input_precision=PRECISION)
        h += tl.load(bias_1 + unit, mask=known, other=0.0)[None, :]
        w_2 = tl.load(weight_2 + place_2, mask=inside_2, other=0.0)
        of_h = tl.where(h > 0, tl.dot(g, w_2, input_precision=PRECISION), 0.0)
        h = tl.where(h < 0, 0.0, h)
        tl.store(totals + place_1, tl.dot(tl.trans(of_h), y, input_precision=PRECISION), mask=inside_1)
        tl.store(totals + size + place_2, tl.dot(tl.trans(g), h, input_precision=PRECISION), mask=inside_2)
        tl.store(totals + 2 * size + unit, tl.sum(of_h, axis=0), mask=known)
        total += tl.dot(of_h, w, input_precision=PRECISION)
    tl.store(totals + 2 * size + hidden + channel, tl.sum(g, axis=0), mask=inside)
    tl.store(back + address, total, mask=there)
    # sums for the way through the first normalisation
    place = run * tl.num_programs(0) + part
    tl.store(numbers_in + place, tl.sum(counted.to(tl.float32), axis=0))
    tl.store(of_weights_in + place * channels + channel, tl.sum(total * apart * scale[None, :], axis=0), mask=inside)
    tl.store(of_biases_in + place * channels + channel, tl.sum(total, axis=0), mask=inside)


def takes(channels: int, num_rows: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels support such rows, of blocks with twice as many hidden channels."""
    fits = dtype == torch.float32 and 0 < channels <= _MOST_CHANNELS and 0 < num_rows <= _MOST_ROWS
    fits = fits and ceil_div(num_rows, _num_rows(channels)) * 4 * channels**2 <= _MOST_PARTS
    return fits and _has_room(device)


@cache
def _has_room(device: torch.device) -> bool:
    """Whether a GPU has the fast memory that a program needs."""
    if device.type != "cuda":
        return True
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin) >= _SHARED


def forward(
    x: Tensor,
    counts: Tensor,
    norm_in: tuple[Tensor, Tensor],
    maps: tuple[Tensor, Tensor, Tensor, Tensor],
    norm_out: tuple[Tensor, Tensor],
    running_in: Running,
    running_out: Running,
    momenta: tuple[float, float],
    epsilons: tuple[float, float],
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Moments of the input, both maps, and the last normalisation."""
    check_running(running_in)
    x, counts, norm = x.contiguous(), rows_of_runs(counts), [rows_of_runs(each) for each in norm_in]
    weights = [packed_runs(each) for each in maps]
    num_runs, num_rows, channels = x.shape
    parts, hidden = moments(x, counts), weights[0].size(1)
    sizes = _sizes(channels)
    grid = ceil_div(num_rows, sizes["ROWS"]), num_runs
    mean = x.new_empty(num_runs, channels)
    z, scale, found = torch.empty_like(x), torch.empty_like(mean), Parts.empty(mean, grid[0])
    _maps_kernel[grid](
        x, counts, *norm, *weights, *parts, *running_in, mean, scale, z, *found,
        num_rows, channels, hidden, parts.number, counts.stride(0), *(each.stride(0) for each in (*norm, *weights)),
        MOMENTUM=float(momenta[0]), EPS=float(epsilons[0]), PARTS=power_of_2_from(parts.number), **sizes,
    )  # fmt: skip
    out, last_mean, last_scale = normalise_parts(z, found, *norm_out, running_out, momenta[1], epsilons[1])
    return out, z, (mean, scale, last_mean, last_scale)


def backward(
    grad: Tensor,
    x: Tensor,
    z: Tensor,
    counts: Tensor,
    norm_in: tuple[Tensor, Tensor],
    maps: tuple[Tensor, Tensor, Tensor, Tensor],
    norm_out: tuple[Tensor, Tensor],
    stats: tuple[Tensor, Tensor, Tensor, Tensor],
) -> tuple[Tensor, ...]:
    """Slopes of the last normalisation, both maps, sums of their gradients, and the first normalisation."""
    grad, x, counts = grad.contiguous(), x.contiguous(), rows_of_runs(counts)
    norm, last = [rows_of_runs(each) for each in norm_in], rows_of_runs(norm_out[0])
    weights = [packed_runs(each) for each in maps[:3]]
    num_runs, num_rows, channels = x.shape
    parts, hidden = slopes(grad, z, counts, *norm_out, *stats[2:]), weights[0].size(1)
    sizes = _sizes(channels)
    grid = ceil_div(num_rows, sizes["ROWS"]), num_runs
    back, found = torch.empty_like(x), Parts.empty(stats[0], grid[0])
    of_last = torch.empty_like(stats[0]), torch.empty_like(stats[0])
    lengths = [hidden * channels, hidden * channels, hidden, channels]
    totals = x.new_empty(num_runs, grid[0], sum(lengths))
    strides = (each.stride(0) for each in (*norm, *weights, last))
    _maps_back_kernel[grid](
        grad, z, x, counts, *norm, *weights, last, *stats, *parts, *of_last, back, *found, totals,
        num_rows, channels, hidden, parts.number, counts.stride(0), *strides,
        PARTS=power_of_2_from(parts.number), **sizes,
    )  # fmt: skip
    first, second, bias_1, bias_2 = sum_parts(totals).split(lengths, dim=1)
    of_maps = first.view(weights[0].shape), bias_1, second.view(weights[2].shape), bias_2
    grad_x, of_weight, of_bias = gradients_of_parts(back, x, counts, found, *norm_in, *stats[:2])
    return grad_x, of_weight, of_bias, *of_maps, *of_last


def _sizes(channels: int) -> dict[str, Any]:
    """Sizes of a program. On an H200, four runs of 784 rows: 47 us for both passes with 64 channels, 77 with 80."""
    return {
        "ROWS": _num_rows(channels), "BLOCK": _block(channels), "HIDDEN": _HIDDEN,
        "PRECISION": dot_precision("tf32x3"), "num_warps": 4, "num_stages": 1,
    }  # fmt: skip


def _num_rows(channels: int) -> int:
    """Rows of a program."""
    return max(16, min(32, _TILE // _block(channels)))


def _block(channels: int) -> int:
    return max(16, power_of_2_from(channels))
