"""Sums over the padded layout as Triton kernels: a program computes a few rows of the result, without atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.batched.pair_products import TILE
from graphprism.ops.kernels import ceil_div, power_of_2_from

# Bytes of the result that one program holds, and channels side by side of many rows. Measured for eight layers of 27
# runs with 144 channels, microseconds of the relations' sums and the plain ones: in bfloat16 68 and 59 with 2 kB and 32
# channels, 89 and 71 with 16, 71 and 68 with 4 kB and 64; in float32 147 and 91, 153 and 97, 152 and 99.
_TILE = 2048
_BLOCK = 32
# Rows of a column that are read at once: 752 rows of 448 channels, nine runs, took 15 us with 128.
_COLUMN = 1024
# Relations whose sums a program holds at once.
_TOGETHER = 4
# Rows of all runs from which on their number, and not the way of one of them, decides.
_MANY = 4096


@triton.jit
def _sum_kernel(
    rows, place, weight, bias, root, eps, out, num_rows, num_out, channels, place_stride, weight_stride, bias_stride,
    SLOTS: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_ROOT: tl.constexpr, RELU: tl.constexpr, SUM: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    rows, out = rows + run * num_rows * channels, out + run * num_out * channels
    place, weight = place + run * num_out * place_stride, weight + run * num_out * weight_stride
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    there = row < num_out
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    if HAS_ROOT:
        mine = root + run * num_out * channels + row[:, None] * channels + channel[None, :]
        mine = tl.load(mine, mask=there[:, None] & inside[None, :], other=0.0).to(SUM)
        total += (1.0 + tl.load(eps + run).to(SUM)) * mine
    for slot in tl.static_range(SLOTS):
        w = tl.load(weight + row * weight_stride + slot, mask=there, other=0.0).to(SUM)
        source = tl.load(place + row * place_stride + slot, mask=there, other=0).to(COUNT)
        # an empty slot costs no read
        wanted = (w != 0)[:, None] & inside[None, :]
        entry = tl.load(rows + source[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        total += w[:, None] * entry
    if HAS_BIAS:
        total += tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)[None, :]
    if RELU:  # a comparison, so that NaN stays NaN
        total = tl.where(total < 0, 0.0, total)
    tl.store(out + row[:, None] * channels + channel[None, :], total.to(out.dtype.element_ty),
             mask=there[:, None] & inside[None, :])  # fmt: skip


@triton.jit
def _split_sum_kernel(
    rows, gate, place, weight, relation, active, out, parts, num_rows, num_out, channels,
    place_stride, weight_stride, relation_stride, num_tiles,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, TOGETHER: tl.constexpr, HAS_GATE: tl.constexpr,
    PARTS: tl.constexpr, SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    bits = -1
    if TILE > 0:
        bits = tl.load(active + run * num_tiles + tl.program_id(0) * ROWS // TILE)
    rows, out = rows + run * num_rows * channels, out + run * num_out * channels * RELATIONS
    if HAS_GATE:
        gate += run * num_rows * channels
    place, weight = place + run * num_out * place_stride, weight + run * num_out * weight_stride
    relation += run * num_out * relation_stride
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    if PARTS > 0:  # loaded now, added at the end: its latency is hidden
        own = (row < num_out)[:, None] & inside[None, :]
        address = row[:, None] * channels + channel[None, :]
        mine = tl.load(rows + address, mask=own, other=0.0)
        if HAS_GATE:
            mine = tl.where(tl.load(gate + address, mask=own, other=0.0) > 0, mine, 0.0)
    there = (row < num_out) & (bits != 0)
    # the sums of a few relations at once: what a slot points to is read once for all of them
    for first in tl.static_range(0, RELATIONS, TOGETHER):
        sums = ()
        for _ in tl.static_range(TOGETHER):
            sums = sums + (tl.zeros((ROWS, BLOCK), dtype=SUM),)  # noqa: RUF005  # the language has no stars
        for slot in tl.static_range(SLOTS):
            w = tl.load(weight + row * weight_stride + slot, mask=there, other=0.0).to(SUM)
            source = tl.load(place + row * place_stride + slot, mask=there, other=0).to(COUNT)
            kind = tl.zeros((ROWS,), dtype=tl.int32)
            if RELATIONS > 1:
                kind = tl.load(relation + row * relation_stride + slot, mask=there, other=-1)
            of_these = (kind >= first) & (kind < first + TOGETHER) & (w != 0)
            wanted = of_these[:, None] & inside[None, :]
            address = source[:, None] * channels + channel[None, :]
            entry = tl.load(rows + address, mask=wanted, other=0.0).to(SUM)
            if HAS_GATE:
                entry = tl.where(tl.load(gate + address, mask=wanted, other=0.0) > 0, entry, 0.0)
            more = ()
            for r in tl.static_range(TOGETHER):
                # a choice, and not a weight of zero: what the slots of one relation point to may be NaN
                new = tl.where((kind == first + r)[:, None], sums[r] + w[:, None] * entry, sums[r])
                more = more + (new,)  # noqa: RUF005
            sums = more
        for r in tl.static_range(TOGETHER):
            if first + r < RELATIONS:
                wanted = (there & (((bits >> (first + r)) & 1) != 0))[:, None] & inside[None, :]
                target = out + (row[:, None] * RELATIONS + first + r) * channels + channel[None, :]
                tl.store(target, sums[r].to(out.dtype.element_ty), mask=wanted)
    if PARTS > 0:
        some = tl.sum(tl.reshape(mine.to(SUM), (PARTS, ROWS // PARTS, BLOCK)), axis=1)
        part = (run * tl.num_programs(0) + tl.program_id(0)) * PARTS + tl.arange(0, PARTS)
        tl.store(parts + part[:, None] * channels + channel[None, :], some, mask=inside[None, :])


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


def slot_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool,
    root: tuple[Tensor, Tensor] | None,
    out: Tensor,
) -> None:
    """One program for a few nodes of one run."""
    num_runs, num_out, slots = place.shape
    channels = rows.size(2)
    rows = rows.contiguous()
    own, eps = (None, None) if root is None else (each.contiguous() for each in root)
    side, block = _tile(rows, num_runs * num_out)
    _sum_kernel[(ceil_div(num_out, side), num_runs, ceil_div(channels, block))](
        rows, place, weight, bias, own, eps, out,
        rows.size(1), num_out, channels, _stride(place), _stride(weight), 0 if bias is None else bias.stride(0),
        SLOTS=slots, HAS_BIAS=bias is not None, HAS_ROOT=root is not None, RELU=relu, SUM=_wide(rows),
        COUNT=_count(rows, out),
        ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip


def slot_split_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_relations: int,
    gate: Tensor | None,
    active: Tensor | None,
    parts: Tensor | None,
    out: Tensor,
) -> None:
    """Launches one program per run and few nodes, all relations; inactive rows are not written."""
    num_runs, num_out, slots = place.shape
    channels = rows.size(2)
    rows, gate = rows.contiguous(), None if gate is None else gate.contiguous()
    side, block = _tile(rows, num_runs * num_out)
    # a program must stay inside one tile
    active = active if TILE % side == 0 else None
    _split_sum_kernel[(ceil_div(num_out, side), num_runs, ceil_div(channels, block))](
        rows, gate, place, weight, relation, active, out, parts, rows.size(1), num_out, channels,
        _stride(place), _stride(weight), _stride(relation), 0 if active is None else active.size(1),
        SLOTS=slots, RELATIONS=num_relations, TOGETHER=min(num_relations, _TOGETHER), HAS_GATE=gate is not None,
        PARTS=0 if parts is None else _parts(rows, side), SUM=_wide(rows), COUNT=_count(rows, out),
        ROWS=side, BLOCK=block,
        TILE=0 if active is None else TILE, num_warps=4,
    )  # fmt: skip


def empty_parts(rows: Tensor, num_layers: int) -> Tensor:
    """Allocates the partial column sums of all programs."""
    num_runs, num_rows, channels = rows.shape
    side, _ = _tile(rows, num_runs * num_rows)
    count = ceil_div(num_rows, side) * _parts(rows, side)
    wide = torch.float64 if rows.dtype == torch.float64 else torch.float32
    return rows.new_empty(num_layers, num_runs, count, channels, dtype=wide)


def gated_column_sum(rows: Tensor, gate: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Launches one program per run and few columns."""
    num_runs, num_rows, channels = rows.shape
    out = rows.new_empty(num_runs, channels, dtype=dtype)
    rows, gate = rows.contiguous(), None if gate is None else gate.contiguous()
    block = min(16, power_of_2_from(channels))
    _column_sum_kernel[(ceil_div(channels, block), num_runs)](
        rows, gate, out, num_rows, channels,
        HAS_GATE=gate is not None, SUM=_wide(rows), ROWS=min(_COLUMN, max(16, power_of_2_from(num_rows))),
        BLOCK=block, num_warps=8,
    )  # fmt: skip
    return out


def _tile(rows: Tensor, num_rows: int) -> tuple[int, int]:
    """Rows and channels per program; for a single run whole rows are faster: 3.3 instead of 4.7 us."""
    channels, tile = rows.size(2), _TILE // rows.element_size()
    block = power_of_2_from(channels)
    block = min(block, _BLOCK) if num_rows >= _MANY else block
    return max(1, tile // block), block


def _parts(rows: Tensor, side: int) -> int:
    """Partial column sums per program: one per warp for two-byte rows, which avoids a reduction across warps.

    For eight layers of 27 runs, microseconds with and without column sums: in bfloat16 82 (one sum: 103) and 71, in
    float32 156 (four: 160) and 146; a separate pass over all rows for the column sums takes 19 and 29.
    """
    return min(4, side) if rows.element_size() == 2 else 1


def _stride(table: Tensor) -> int:
    """Stride between nodes; slots must be contiguous, and runs consecutive."""
    num_runs, num_rows, slots = table.shape
    if (table.stride(2) != 1 and slots > 1) or (num_runs > 1 and table.stride(0) != num_rows * table.stride(1)):
        raise ValueError(f"a table must have its slots side by side and its runs in a row, got {table.stride()}")
    return table.stride(1)


def _count(rows: Tensor, out: Tensor) -> tl.dtype:
    """The narrowest integer type that can index the numbers of one run: wide integers cost instructions."""
    most = max(tensor.size(1) * tensor.size(2) for tensor in (rows, out))
    return tl.int32 if most < 1 << 31 else tl.int64


def _wide(rows: Tensor) -> tl.dtype:
    return tl.float64 if rows.dtype == torch.float64 else tl.float32
