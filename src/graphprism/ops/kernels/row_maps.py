"""Linear maps of the rows of many runs as Triton kernels, for rows so few that products by libraries mostly wait.

Backward is one kernel for rows and weights: a program has a few rows of one run, and what it adds to the weights'
gradient is a part, which a second kernel sums. On an H200, four runs of 784 rows, 64 x 64 channels: cuBLAS takes 5.4 us
for the gradient of the rows, and 28 us for that of the weights, in which it sums all rows one after another.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, dot_precision, packed_runs, rows_of_runs

# Rows, and channels on both sides, that a program has at once.
_ROWS, _SIDE = 64, 32
# Rows of a run and numbers of all parts beyond which products by libraries are better.
_MOST_ROWS, _MOST_PARTS = 4096, 1 << 22
# Numbers, and parts of each, that one program adds at once.
_ADDED, _ADDED_PARTS = 256, 16


@triton.jit
def _forward_kernel(
    x, weight, bias, out, num_rows, channels, outputs, each, x_run, weight_run, bias_run, by_relation, by_channel,
    by_output, HAS_BIAS: tl.constexpr, RELU: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    output = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    wanted = output < outputs
    column = weight + run * weight_run + (output // each) * by_relation + (output % each) * by_output
    total = tl.zeros((ROWS, SIDE), dtype=tl.float32)
    if HAS_BIAS:
        total += tl.load(bias + run * bias_run + output, mask=wanted, other=0.0)[None, :]
    for first in range(0, channels, SIDE):
        channel = first + tl.arange(0, SIDE)
        inside = channel < channels
        part = tl.load(
            x + run * x_run + row[:, None] * channels + channel[None, :],
            mask=(row < num_rows)[:, None] & inside[None, :], other=0.0,
        )  # fmt: skip
        w = tl.load(column[None, :] + channel[:, None] * by_channel, mask=inside[:, None] & wanted[None, :], other=0.0)
        total = tl.dot(part, w, total, input_precision=PRECISION)
    if RELU:
        total = tl.where(total < 0, 0.0, total)  # a comparison, so that NaN stays NaN
    place = (run * num_rows + row)[:, None] * outputs + output[None, :]
    tl.store(out + place, total, mask=(row < num_rows)[:, None] & wanted[None, :])


@triton.jit
def _backward_kernel(
    grad, gate, x, weight, grad_x, parts, num_rows, channels, outputs, each, x_run, weight_run,
    by_relation, by_channel, by_output, part_channel, part_output, size,
    HAS_GATE: tl.constexpr, HAS_BIAS: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    run, number = tl.program_id(1).to(tl.int64), tl.program_id(0)
    row = number * ROWS + tl.arange(0, ROWS)
    there = row < num_rows
    channel = tl.program_id(2) * SIDE + tl.arange(0, SIDE)
    inside = channel < channels
    mine = tl.load(
        x + run * x_run + row[:, None] * channels + channel[None, :], mask=there[:, None] & inside[None, :], other=0.0
    )
    parts += (run * tl.num_programs(0) + number) * size
    total = tl.zeros((ROWS, SIDE), dtype=tl.float32)
    for first in range(0, outputs, SIDE):
        output = first + tl.arange(0, SIDE)
        wanted = output < outputs
        relation, place = output // each, output % each
        source = (run * num_rows + row)[:, None] * outputs + output[None, :]
        known = there[:, None] & wanted[None, :]
        g = tl.load(grad + source, mask=known, other=0.0)
        if HAS_GATE:
            g = tl.where(tl.load(gate + source, mask=known, other=0.0) > 0, g, 0.0)
        both = wanted[:, None] & inside[None, :]
        column = relation * by_relation + place * by_output
        w = tl.load(weight + run * weight_run + column[:, None] + channel[None, :] * by_channel, mask=both, other=0.0)
        total = tl.dot(g, w, total, input_precision=PRECISION)
        target = (relation * each * channels + place * part_output)[:, None] + channel[None, :] * part_channel
        tl.store(parts + target, tl.dot(tl.trans(g), mine, input_precision=PRECISION), mask=both)
        if HAS_BIAS and tl.program_id(2) == 0:
            tl.store(parts + outputs * channels + output, tl.sum(g, axis=0), mask=wanted)
    target = (run * num_rows + row)[:, None] * channels + channel[None, :]
    tl.store(grad_x + target, total, mask=there[:, None] & inside[None, :])


@triton.jit
def _total_kernel(parts, out, num_parts, size, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((PARTS, BLOCK), dtype=tl.float32)
    for first in range(0, num_parts, PARTS):
        part = first + tl.arange(0, PARTS)
        wanted = (part < num_parts)[:, None] & (place < size)[None, :]
        total += tl.load(parts + (run * num_parts + part)[:, None] * size + place[None, :], mask=wanted, other=0.0)
    tl.store(out + run * size + place, tl.sum(total, axis=0), mask=place < size)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels support such rows and weights, and pay."""
    num_runs, num_rows, channels = x.shape
    parts = num_runs * ceil_div(num_rows, _ROWS) * weight.shape[1:].numel()
    fits = 0 < num_rows <= _MOST_ROWS and channels > 0 and 0 < parts <= _MOST_PARTS
    return fits and x.dtype == weight.dtype == torch.float32


def map_rows(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """One program for a few rows and outputs of one run."""
    x, weight, bias = packed_runs(x), _dense(weight), None if bias is None else rows_of_runs(bias)
    (num_runs, num_rows, channels), (relations, _, each) = x.shape, weight.shape[1:]
    outputs = relations * each
    out = x.new_empty(num_runs, num_rows, outputs)
    _forward_kernel[(ceil_div(num_rows, _ROWS), num_runs, ceil_div(outputs, _SIDE))](
        x, weight, bias, out, num_rows, channels, outputs, each, x.stride(0), weight.stride(0),
        0 if bias is None else bias.stride(0), *weight.stride()[1:],
        HAS_BIAS=bias is not None, RELU=relu, PRECISION=dot_precision("tf32x3"), ROWS=_ROWS, SIDE=_SIDE,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    return out


def map_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, gate: Tensor | None, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Two kernels; the gradient of the weights has their layout."""
    grad, x, weight = grad.contiguous(), packed_runs(x), _dense(weight)
    (num_runs, num_rows, channels), (relations, _, each) = x.shape, weight.shape[1:]
    outputs, grad_x = relations * each, x.new_empty(x.shape)
    size = outputs * channels + (outputs if needs_bias else 0)
    grid = ceil_div(num_rows, _ROWS), num_runs, ceil_div(channels, _SIDE)
    parts = x.new_empty(num_runs, grid[0], size)
    of_channel, of_output = (each, 1) if weight.stride(3) == 1 else (1, channels)
    _backward_kernel[grid](
        grad, gate, x, weight, grad_x, parts, num_rows, channels, outputs, each, x.stride(0), weight.stride(0),
        *weight.stride()[1:], of_channel, of_output, size,
        HAS_GATE=gate is not None, HAS_BIAS=needs_bias, PRECISION=dot_precision("tf32x3"), ROWS=_ROWS, SIDE=_SIDE,
        num_warps=4, num_stages=1,
    )  # fmt: skip
    total = sum_parts(parts)
    strides = (size, channels * each, of_channel, of_output)
    grad_bias = total[:, outputs * channels :] if needs_bias else None
    return grad_x, total.as_strided(weight.shape, strides), grad_bias


def sum_parts(parts: Tensor) -> Tensor:
    """Sums (K, P, M) over P in a fixed order."""
    num_runs, num_parts, size = parts.shape
    total = parts.new_empty(num_runs, size)
    _total_kernel[(ceil_div(size, _ADDED), num_runs)](
        parts, total, num_parts, size, PARTS=_ADDED_PARTS, BLOCK=_ADDED, num_warps=4
    )
    return total


def _dense(weight: Tensor) -> Tensor:
    """Strides between runs, relations, channels and outputs of which that of channels or of outputs is one."""
    return weight if 1 in weight.stride()[2:] else weight.contiguous()
