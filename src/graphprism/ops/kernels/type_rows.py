"""Embedding rows by type as Triton kernels; sums are products with one-hot matrices that exist in registers only."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, packed_runs, power_of_2_from
from graphprism.ops.kernels.row_maps import sum_parts

# Rows and channels of a program that reads, and of a pass of one that sums up: few channels, so that one run alone
# keeps some processors busy.
_READ = 64, 32
_SUMMED = 128, 16
# Types of a program, at least and at most.
_FEWEST_TYPES, _MOST_TYPES = 16, 64
# Programs that keep a GPU busy, and passes over rows that one has at least: the sums of parts are another kernel.
_PROGRAMS, _FEWEST_PASSES = 128, 3
# Plain TF32 cuts float32 rows off, all towards zero, and sums of many would be too small. Memory, not products, is what
# the kernel waits for.
_PRECISION = "tf32x3"


@triton.jit
def _read_kernel(
    types, weight, out, num_rows, num_types, channels, types_run, types_row, weight_run,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < num_rows)[:, None] & (channel < channels)[None, :]
    kind = tl.load(types + run * types_run + row * types_row, mask=row < num_rows, other=0).to(tl.int32)
    there = inside & ((kind >= 0) & (kind < num_types))[:, None]
    entry = tl.load(weight + run * weight_run + kind[:, None] * channels + channel[None, :], mask=there, other=0.0)
    target = out + (run * num_rows + row)[:, None] * channels + channel[None, :]
    tl.store(target, entry.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _sum_kernel(
    types, rows, out, num_rows, num_types, channels, types_run, types_row, length,
    PRECISION: tl.constexpr, TYPES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    # programs of the same rows stand side by side
    type_blocks = tl.cdiv(num_types, TYPES)
    channel = tl.program_id(0) // type_blocks * BLOCK + tl.arange(0, BLOCK)
    every = tl.program_id(0) % type_blocks * TYPES + tl.arange(0, TYPES)
    total = tl.zeros((TYPES, BLOCK), dtype=tl.float32)
    begin = tl.program_id(2) * length
    end = tl.minimum(begin + length, num_rows)
    for first in range(begin, end, ROWS):
        row = first + tl.arange(0, ROWS)
        kind = tl.load(types + run * types_run + row * types_row, mask=row < end, other=0).to(tl.int32)
        inside = (row < end)[:, None] & (channel < channels)[None, :]
        part = tl.load(rows + (run * num_rows + row)[:, None] * channels + channel[None, :], mask=inside, other=0.0)
        chosen = (kind[None, :] == every[:, None]).to(part.dtype)
        total = tl.dot(chosen, part, total, input_precision=PRECISION)
    wanted = (every < num_types)[:, None] & (channel < channels)[None, :]
    place = (run * tl.num_programs(2) + tl.program_id(2)) * num_types + every
    target = out + place[:, None] * channels + channel[None, :]
    tl.store(target, total.to(out.dtype.element_ty), mask=wanted)


def takes(rows: Tensor) -> bool:
    """Whether the kernels support such rows."""
    return rows.is_cuda and rows.dtype in (torch.float32, torch.bfloat16, torch.float16)


def read_rows(types: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Launches one program per run and few rows."""
    weight = packed_runs(weight)
    (num_runs, num_rows), channels = types.shape, weight.size(2)
    out = weight.new_empty(num_runs, num_rows, channels, dtype=dtype or weight.dtype)
    side, block = _READ
    _read_kernel[(ceil_div(num_rows, side), num_runs, ceil_div(channels, block))](
        types, weight, out, num_rows, weight.size(1), channels, types.stride(0), types.stride(1), weight.stride(0),
        ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out


def sum_types(types: Tensor, rows: Tensor, num_types: int, dtype: torch.dtype | None = None) -> Tensor:
    """Launches one program per run, few channels and few types; where these are few programs, per part of the rows."""
    num_runs, num_rows, channels = rows.shape
    kinds = min(_MOST_TYPES, max(_FEWEST_TYPES, power_of_2_from(num_types)))
    side, block = _SUMMED
    programs = ceil_div(channels, block) * ceil_div(num_types, kinds)
    most = ceil_div(_PROGRAMS, max(1, programs * num_runs))
    length = side * max(_FEWEST_PASSES, ceil_div(ceil_div(num_rows, side), most))
    parts, dtype = max(1, ceil_div(num_rows, length)), dtype or rows.dtype
    own = dtype if parts == 1 else torch.float32
    out = rows.new_empty(num_runs, parts, num_types, channels, dtype=own)
    _sum_kernel[(programs, num_runs, parts)](
        types, rows.contiguous(), out, num_rows, num_types, channels, types.stride(0), types.stride(1), length,
        PRECISION=_PRECISION, TYPES=kinds, ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip
    return out[:, 0] if parts == 1 else sum_parts(out.flatten(2)).to(dtype).view(num_runs, num_types, channels)
