"""The sums over tables as Triton kernels: a program makes a few rows of the result; nothing is added by atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Bytes of the result that one program holds. Measured for the relations of 27 runs in float32, microseconds: 18.8 with
# 2 kB, 19.3 with 4, 25.5 with 8; of one run 2.7, 3.7; of 27 in bfloat16 15.9 with 1 kB, 13.7 with 2, 19.4 with 4.
_TILE = 2048
# Rows of all runs from which on their number, and not the way of one of them, decides.
_MANY = 4096


@triton.jit
def _sum_kernel(
    rows, place, weight, bias, out, num_rows, num_out, channels, place_stride, weight_stride, bias_stride,
    SLOTS: tl.constexpr, HAS_BIAS: tl.constexpr, RELU: tl.constexpr, SUM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    there = row < num_out
    own = run * num_out + row
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for slot in tl.static_range(SLOTS):
        w = tl.load(weight + own * weight_stride + slot, mask=there, other=0.0).to(SUM)
        source = run * num_rows + tl.load(place + own * place_stride + slot, mask=there, other=0)
        # an empty slot costs no read
        wanted = (w != 0)[:, None] & inside[None, :]
        entry = tl.load(rows + source[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        total += w[:, None] * entry
    if HAS_BIAS:
        total += tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)[None, :]
    if RELU:  # a comparison, so that NaN stays NaN
        total = tl.where(total < 0, 0.0, total)
    tl.store(out + own[:, None] * channels + channel[None, :], total.to(out.dtype.element_ty),
             mask=there[:, None] & inside[None, :])  # fmt: skip


@triton.jit
def _split_sum_kernel(
    rows, gate, place, weight, relation, out, num_rows, num_out, channels,
    place_stride, weight_stride, relation_stride,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, HAS_GATE: tl.constexpr, SUM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    there = row < num_out
    own = run * num_out + row
    for r in tl.static_range(RELATIONS):
        total = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for slot in tl.static_range(SLOTS):
            w = tl.load(weight + own * weight_stride + slot, mask=there, other=0.0).to(SUM)
            if RELATIONS > 1:
                kind = tl.load(relation + own * relation_stride + slot, mask=there, other=-1)
                w = tl.where(kind == r, w, 0.0)
            source = run * num_rows + tl.load(place + own * place_stride + slot, mask=there, other=0)
            wanted = (w != 0)[:, None] & inside[None, :]
            address = source[:, None] * channels + channel[None, :]
            entry = tl.load(rows + address, mask=wanted, other=0.0).to(SUM)
            if HAS_GATE:
                open_ = tl.load(gate + address, mask=wanted, other=0.0)
                entry = tl.where(open_ > 0, entry, 0.0)
            total += w[:, None] * entry
        target = out + (own[:, None] * RELATIONS + r) * channels + channel[None, :]
        tl.store(target, total.to(out.dtype.element_ty), mask=there[:, None] & inside[None, :])


@triton.jit
def _column_sum_kernel(
    rows, gate, out, num_rows, channels,
    HAS_GATE: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for first in range(0, num_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        wanted = (row < num_rows)[:, None] & inside[None, :]
        address = (run * num_rows + row)[:, None] * channels + channel[None, :]
        entry = tl.load(rows + address, mask=wanted, other=0.0).to(SUM)
        if HAS_GATE:
            entry = tl.where(tl.load(gate + address, mask=wanted, other=0.0) > 0, entry, 0.0)
        total += entry
    tl.store(out + run * channels + channel, tl.sum(total, axis=0).to(out.dtype.element_ty), mask=inside)


def table_sum(rows: Tensor, place: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, out: Tensor) -> None:
    """One program for a few nodes of one run."""
    num_runs, num_out, slots = place.shape
    channels = rows.size(2)
    rows = rows.contiguous()
    side, block = _tile(rows, num_runs * num_out)
    _sum_kernel[(triton.cdiv(num_out, side), num_runs, triton.cdiv(channels, block))](
        rows, place, weight, bias, out, rows.size(1), num_out, channels, _stride(place), _stride(weight),
        0 if bias is None else bias.stride(0),
        SLOTS=slots, HAS_BIAS=bias is not None, RELU=relu, SUM=_wide(rows), ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip


def table_split_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_relations: int,
    gate: Tensor | None,
    out: Tensor,
) -> None:
    """One program for a few nodes of one run, all relations one after another."""
    num_runs, num_out, slots = place.shape
    channels = rows.size(2)
    rows, gate = rows.contiguous(), None if gate is None else gate.contiguous()
    side, block = _tile(rows, num_runs * num_out)
    _split_sum_kernel[(triton.cdiv(num_out, side), num_runs, triton.cdiv(channels, block))](
        rows, gate, place, weight, relation, out, rows.size(1), num_out, channels,
        _stride(place), _stride(weight), _stride(relation),
        SLOTS=slots, RELATIONS=num_relations, HAS_GATE=gate is not None, SUM=_wide(rows),
        ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip


def gated_column_sum(rows: Tensor, gate: Tensor | None) -> Tensor:
    """One program for a few columns of one run."""
    num_runs, num_rows, channels = rows.shape
    out = rows.new_empty(num_runs, channels)
    rows, gate = rows.contiguous(), None if gate is None else gate.contiguous()
    block = min(16, triton.next_power_of_2(channels))
    _column_sum_kernel[(triton.cdiv(channels, block), num_runs)](
        rows, gate, out, num_rows, channels,
        HAS_GATE=gate is not None, SUM=_wide(rows), ROWS=256, BLOCK=block, num_warps=8,
    )  # fmt: skip
    return out


def _tile(rows: Tensor, num_rows: int) -> tuple[int, int]:
    """Rows and channels of a program.

    A power of two that divides the channels leaves no lane idle: 30 instead of 34 us for the relations of 27 runs. For
    a single run rows in one piece are faster: 3.3 instead of 4.7 us.
    """
    channels, tile = rows.size(2), _TILE // rows.element_size()
    divisor = channels & -channels
    block = min(divisor, tile) if divisor >= 16 and num_rows >= _MANY else triton.next_power_of_2(channels)
    return max(1, tile // block), block


def _stride(table: Tensor) -> int:
    """Numbers from one node to the next; slots stand side by side, runs one after another."""
    num_runs, num_rows, slots = table.shape
    if (table.stride(2) != 1 and slots > 1) or (num_runs > 1 and table.stride(0) != num_rows * table.stride(1)):
        raise ValueError(f"a table must have its slots side by side and its runs in a row, got {table.stride()}")
    return table.stride(1)


def _wide(rows: Tensor) -> tl.dtype:
    return tl.float64 if rows.dtype == torch.float64 else tl.float32
