"""`csr_sum` as a Triton kernel: a program sums a few rows in parallel, in float32 at least, without atomics.

Measured on an H200 against cuSPARSE, float32 (169k nodes, 3 relations, 1.17M entries with hubs of 12,600): 0.18 and
0.18 ms at 64 channels, 0.38 and 0.46 ms at 256; 1.3 and 1.8 ms on 2.9M nodes, 14M entries, 32 channels; without hubs
0.13 and 0.21 ms, and 1.3 and 2.1 ms. cuSPARSE also rejects a matrix with more entries than elements, which multi-edges
cause.
"""

from __future__ import annotations

from typing import Protocol

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.csr import Segments
from graphprism.ops.kernels import Launches, ceil_div, device_of, power_of_2_from
from graphprism.ops.kernels.launch import Launch

# Numbers that one program holds: rows side by side keep many reads in flight, where one alone waits for each of them.
_TILE = 512
# Entries of each row that are read at once.
_UNROLL = 2
# Numbers of the rows that are added to one row at once.
_ADDED = 2048


@triton.jit
def _sum_kernel(
    col, value, dense, out, begin_of, end_of, num_rows, channels,
    HAS_VALUE: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    begin = tl.load(begin_of + row, mask=row < num_rows, other=0)
    count = tl.load(end_of + row, mask=row < num_rows, other=0) - begin
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for first in range(0, tl.max(count, axis=0), UNROLL):
        for step in tl.static_range(UNROLL):
            here = first + step < count
            source = tl.load(col + begin + (first + step), mask=here, other=0)
            # int64 addresses: a table of 2^31 numbers is an everyday graph
            address = source.to(tl.int64)[:, None] * channels + channel[None, :]
            entry = tl.load(dense + address, mask=here[:, None] & inside[None, :], other=0.0).to(SUM)
            if HAS_VALUE:
                entry = tl.load(value + begin + (first + step), mask=here, other=0.0).to(SUM)[:, None] * entry
            total += entry
    wanted = (row < num_rows)[:, None] & inside[None, :]
    place = out + row.to(tl.int64)[:, None] * channels + channel[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=wanted)


@triton.jit
def _add_kernel(
    rows, out, begin_of, end_of, out_row, channels, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    begin, end = tl.load(begin_of + tl.program_id(0)), tl.load(end_of + tl.program_id(0))
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    if begin < end:
        total = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for first in range(begin, end, ROWS):
            row = first + tl.arange(0, ROWS)
            address = row.to(tl.int64)[:, None] * channels + channel[None, :]
            total += tl.load(rows + address, mask=(row < end)[:, None] & inside[None, :], other=0.0).to(SUM)
        place = out + tl.load(out_row + tl.program_id(0)).to(tl.int64) * channels + channel
        total_of_all = tl.load(place, mask=inside, other=0.0).to(SUM) + tl.sum(total, axis=0)
        tl.store(place, total_of_all.to(out.dtype.element_ty), mask=inside)


def cut_and_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """`csr_sum` with `Segments` built for this call only."""
    rowptr, col, value = rowptr.contiguous(), col.contiguous(), None if value is None else value.contiguous()
    return csr_sum(Segments.cut(rowptr, col.numel()), col, value, dense, rowptr.numel() - 1)


def csr_sum(segments: Segments, col: Tensor, value: Tensor | None, dense: Tensor, num_rows: int) -> Tensor:
    """Sums all segments in one launch, then adds the further segments of the few rows that have them."""
    dense = dense.contiguous()
    pieces = dense.new_empty(segments.begin.numel(), dense.size(1))
    if pieces.numel() == 0:
        return pieces[:num_rows]
    channels, has_value = dense.size(1), value is not None
    key = ("sum", channels, has_value, dense.dtype)
    if (launch := segments.launches.get(key)) is None:
        block = min(power_of_2_from(channels), 256)
        rows = max(1, _TILE // block)
        launch = segments.launches[key] = Launch(
            _sum_kernel, (ceil_div(pieces.size(0), rows), ceil_div(channels, block)),
            (segments.begin, segments.end, pieces.size(0), channels),
            HAS_VALUE=has_value, SUM=_sum_type(dense), ROWS=rows, UNROLL=_UNROLL, BLOCK=block, num_warps=4,
        )  # fmt: skip
    with device_of(dense):
        launch(col, value, dense, pieces)
        return add_further(segments, pieces, num_rows)


def add_further(segments: Segments, pieces: Tensor, num_rows: int) -> Tensor:
    """Adds the sums of further segments to those of the first ones, in place: (M + H, F) -> (M, F)."""
    out = pieces[:num_rows]
    if segments.hub.numel() > 0:
        add_ranges(segments, pieces[num_rows:], out)
    return out


class Ranges(Protocol):
    """Structures whose hubs are cut: ranges of further rows, and the rows that they are added to, no row twice."""

    hub: Tensor
    hub_begin: Tensor
    hub_end: Tensor
    launches: Launches


def add_ranges(ranges: Ranges, rows: Tensor, out: Tensor) -> None:
    """Adds the sum of ``rows`` from ``hub_begin[k]`` to ``hub_end[k]`` to the row ``hub[k]`` of ``out``."""
    channels = out.size(1)
    key = ("add", channels, out.dtype)
    if (launch := ranges.launches.get(key)) is None:
        block = min(power_of_2_from(channels), 128)
        launch = ranges.launches[key] = Launch(
            _add_kernel, (ranges.hub.numel(), ceil_div(channels, block)),
            (ranges.hub_begin, ranges.hub_end, ranges.hub, channels),
            SUM=_sum_type(out), ROWS=_ADDED // block, BLOCK=block, num_warps=4,
        )  # fmt: skip
    launch(rows, out)


def _sum_type(dense: Tensor) -> tl.dtype:
    return tl.float64 if dense.dtype == torch.float64 else tl.float32
