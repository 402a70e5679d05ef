"""A linear layer of many runs as one Triton kernel per pass, for shapes at which launch time dominates.

Products are summed without matrix units, which would round float32 to TF32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, packed_runs, power_of_2_from

# Rows of a program on the way forward, and channels that it reads at once, at most.
_ROWS, _MOST_CHANNELS = 8, 256
# Channels of a program on the way back: few, so that 27 runs of 144 channels keep all processors busy.
_CHANNELS = 32
# Outputs and rows beyond which products by matrix units are better; more rows in float64 do not fit into registers.
_MOST_OUTPUTS, _MOST_ROWS, _MOST_WIDE_ROWS = 16, 128, 32
# Numbers that get their bias and ReLU in one program.
_FINISHED = 1024
# Channels and rows that a program of the gate has at once.
_GATED_CHANNELS, _GATED_ROWS = 8, 1024
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@triton.jit
def _forward_kernel(
    x, weight, bias, out, num_rows, outputs, channels, x_run, weight_run, bias_run,
    HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    output = tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    source = x + run * x_run + row.to(tl.int64)[:, None] * channels
    factors = weight + run * weight_run + output * channels
    total = tl.zeros((ROWS, BLOCK), dtype=WIDE)
    for first in range(0, channels, BLOCK):
        channel = first + tl.arange(0, BLOCK)
        inside = (row < num_rows)[:, None] & (channel < channels)[None, :]
        part = tl.load(source + channel[None, :], mask=inside, other=0.0).to(WIDE)
        factor = tl.load(factors + channel, mask=channel < channels, other=0.0).to(WIDE)
        total += part * factor[None, :]
    found = tl.sum(total, axis=1)
    if HAS_BIAS:
        found += tl.load(bias + run * bias_run + output).to(WIDE)
    target = out + (run * num_rows + row) * outputs + output
    tl.store(target, found.to(out.dtype.element_ty), mask=row < num_rows)


@triton.jit
def _backward_kernel(
    grad, x, weight, grad_x, grad_weight, grad_bias, num_rows, channels, x_run, weight_run,
    OUTPUTS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, ROWS)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = channel < channels
    inside = (row < num_rows)[:, None] & there[None, :]
    place = row[:, None] * channels + channel[None, :]
    part = tl.load(x + run * x_run + place, mask=inside, other=0.0).to(WIDE)
    total = tl.zeros((ROWS, BLOCK), dtype=WIDE)
    for output in tl.static_range(OUTPUTS):
        source = grad + (run * num_rows + row) * OUTPUTS + output
        g = tl.load(source, mask=row < num_rows, other=0.0).to(WIDE)
        factor = tl.load(weight + run * weight_run + output * channels + channel, mask=there, other=0.0).to(WIDE)
        total += g[:, None] * factor[None, :]
        found = tl.sum(g[:, None] * part, axis=0).to(grad_weight.dtype.element_ty)
        tl.store(grad_weight + (run * OUTPUTS + output) * channels + channel, found, mask=there)
        if tl.program_id(0) == 0:
            tl.store(grad_bias + run * OUTPUTS + output, tl.sum(g, axis=0).to(grad_bias.dtype.element_ty))
    tl.store(grad_x + run * num_rows * channels + place, total.to(grad_x.dtype.element_ty), mask=inside)


@triton.jit
def _finish_kernel(
    out, bias, num_rows, channels, bias_run,
    HAS_BIAS: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    wanted = (row < num_rows)[:, None] & inside[None, :]
    address = (run * num_rows + row)[:, None] * channels + channel[None, :]
    found = tl.load(out + address, mask=wanted, other=0.0).to(WIDE)
    if HAS_BIAS:
        found += tl.load(bias + run * bias_run + channel, mask=inside, other=0.0).to(WIDE)[None, :]
    # a comparison, so that NaN stays NaN
    tl.store(out + address, tl.where(found < 0, 0.0, found).to(out.dtype.element_ty), mask=wanted)


@triton.jit
def _gate_kernel(
    grad, out, passed, columns, num_rows, channels,
    WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    total = tl.zeros((ROWS, BLOCK), dtype=WIDE)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        wanted = (row < num_rows)[:, None] & inside[None, :]
        address = (run * num_rows + row)[:, None] * channels + channel[None, :]
        open_ = tl.load(out + address, mask=wanted, other=0.0).to(WIDE) > 0
        g = tl.where(open_, tl.load(grad + address, mask=wanted, other=0.0), 0.0)
        tl.store(passed + address, g, mask=wanted)
        total += g.to(WIDE)
    tl.store(columns + run * channels + channel, tl.sum(total, axis=0).to(columns.dtype.element_ty), mask=inside)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether the forward kernel supports such rows and weights."""
    fits = weight.size(1) <= _MOST_OUTPUTS and x.numel() > 0
    return x.is_cuda and fits and x.dtype in _DTYPES and weight.dtype in _DTYPES


def takes_back(x: Tensor, weight: Tensor) -> bool:
    """Whether the backward kernel supports such rows and weights."""
    most = _MOST_WIDE_ROWS if torch.float64 in (x.dtype, weight.dtype) else _MOST_ROWS
    return takes(x, weight) and x.size(1) <= most


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Launches one program per run, output and few rows."""
    x, weight = packed_runs(x), packed_runs(weight)
    (num_runs, num_rows, channels), outputs = x.shape, weight.size(1)
    out = x.new_empty(num_runs, num_rows, outputs, dtype=torch.promote_types(x.dtype, weight.dtype))
    given = out if bias is None else packed_runs(bias)  # what is never read
    _forward_kernel[(ceil_div(num_rows, _ROWS), num_runs, outputs)](
        x, weight, given, out, num_rows, outputs, channels, x.stride(0), weight.stride(0), given.stride(0),
        HAS_BIAS=bias is not None, WIDE=_wide(out), ROWS=_ROWS,
        BLOCK=min(_MOST_CHANNELS, power_of_2_from(channels)), num_warps=4,
    )  # fmt: skip
    return out


def linear_gradients(grad: Tensor, x: Tensor, weight: Tensor, needs_bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """One program for all rows and a few channels of one run; that of the first channels has the bias as well."""
    grad, x, weight = grad.contiguous(), packed_runs(x), packed_runs(weight)
    num_runs, num_rows, channels = x.shape
    grad_x, grad_weight = x.new_empty(x.shape), weight.new_empty(weight.shape)
    grad_bias = weight.new_empty(weight.shape[:2])
    _backward_kernel[(ceil_div(channels, _CHANNELS), num_runs)](
        grad, x, weight, grad_x, grad_weight, grad_bias, num_rows, channels, x.stride(0), weight.stride(0),
        OUTPUTS=weight.size(1), WIDE=_wide(grad), ROWS=power_of_2_from(num_rows), BLOCK=_CHANNELS, num_warps=4,
    )  # fmt: skip
    return grad_x, grad_weight, grad_bias if needs_bias else None


def finish(out: Tensor, bias: Tensor | None) -> None:
    """One program for a few rows."""
    given, (num_runs, num_rows, channels) = out if bias is None else packed_runs(bias), out.shape
    block = min(_FINISHED // 16, power_of_2_from(channels))
    _finish_kernel[(ceil_div(num_rows, _FINISHED // block), num_runs, ceil_div(channels, block))](
        out, given, num_rows, channels, given.stride(0),
        HAS_BIAS=bias is not None, WIDE=_wide(out), ROWS=_FINISHED // block, BLOCK=block, num_warps=4,
    )  # fmt: skip


def gate(grad: Tensor, out: Tensor, passed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One program for a few channels of one run."""
    grad, (num_runs, num_rows, channels) = grad.contiguous(), out.shape
    passed, columns = torch.empty_like(out) if passed is None else passed, out.new_empty(num_runs, channels)
    block = min(_GATED_CHANNELS, power_of_2_from(channels))
    _gate_kernel[(ceil_div(channels, block), num_runs)](
        grad, out, passed, columns, num_rows, channels,
        WIDE=_wide(out), ROWS=min(_GATED_ROWS, max(16, power_of_2_from(num_rows))), BLOCK=block, num_warps=8,
    )  # fmt: skip
    return passed, columns


def _wide(tensor: Tensor) -> Any:
    return tl.float64 if tensor.dtype == torch.float64 else tl.float32
