"""`csr_sum` as a Triton kernel: a program sums a few rows in parallel, in float32 at least, without atomics.

Measured on an H200 against cuSPARSE, float32 (169k nodes, 3 relations, 1.17M entries with hubs of 12,600): 0.18 and
0.18 ms at 64 channels, 0.38 and 0.46 ms at 256; 1.3 and 1.8 ms on 2.9M nodes, 14M entries, 32 channels; without hubs
0.13 and 0.21 ms, and 1.3 and 2.1 ms. cuSPARSE also rejects a matrix with more entries than elements, which multi-edges
cause.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.csr import Segments

# Numbers that one program holds: rows side by side keep many reads in flight, where one alone waits for each of them.
_TILE = 512


@triton.jit
def _kernel(
    begin_of, end_of, col, value, dense, out, out_row, num_rows, channels,
    HAS_COL: tl.constexpr, HAS_VALUE: tl.constexpr, ADDS: tl.constexpr, SUM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    begin = tl.load(begin_of + row, mask=row < num_rows, other=0)
    count = tl.load(end_of + row, mask=row < num_rows, other=0) - begin
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for k in range(0, tl.max(count, axis=0)):
        here = k < count
        source = tl.load(col + begin + k, mask=here, other=0) if HAS_COL else begin + k
        # int64 addresses: a table of 2^31 numbers is an everyday graph
        address = source.to(tl.int64)[:, None] * channels + channel[None, :]
        entry = tl.load(dense + address, mask=here[:, None] & inside[None, :], other=0.0).to(SUM)
        if HAS_VALUE:
            entry = tl.load(value + begin + k, mask=here, other=0.0).to(SUM)[:, None] * entry
        total += entry
    wanted = (row < num_rows)[:, None] & inside[None, :]
    row = tl.load(out_row + row, mask=row < num_rows, other=0) if ADDS else row
    place = out + row.to(tl.int64)[:, None] * channels + channel[None, :]
    if ADDS:  # every row once, so nothing depends on the order
        wanted = wanted & (count > 0)[:, None]
        total += tl.load(place, mask=wanted, other=0.0).to(SUM)
    tl.store(place, total.to(out.dtype.element_ty), mask=wanted)


def cut_and_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """`csr_sum` with `Segments` built for this call only."""
    return csr_sum(Segments.cut(rowptr, col.numel()), col, value, dense, rowptr.numel() - 1)


def csr_sum(segments: Segments, col: Tensor, value: Tensor | None, dense: Tensor, num_rows: int) -> Tensor:
    """Sums all segments in one launch, then adds the further segments of the few rows that have them."""
    dense = dense.contiguous()
    if dense.device.index != torch.cuda.current_device():  # Triton launches on the current device
        with torch.cuda.device(dense.device):
            return csr_sum(segments, col, value, dense, num_rows)
    pieces = dense.new_empty(segments.begin.numel(), dense.size(1))
    if pieces.numel() == 0:
        return pieces
    _launch(segments.begin, segments.end, col, value, dense, pieces, None)
    return add_further(segments, pieces, num_rows)


def add_further(segments: Segments, pieces: Tensor, num_rows: int) -> Tensor:
    """Adds the sums of further segments to those of the first ones, in place: (M + H, F) -> (M, F)."""
    out = pieces[:num_rows]
    if segments.hub.numel() > 0:
        _launch(segments.hub_begin, segments.hub_end, None, None, pieces[num_rows:], out, segments.hub)
    return out


def _launch(
    begin: Tensor,
    end: Tensor,
    col: Tensor | None,
    value: Tensor | None,
    dense: Tensor,
    out: Tensor,
    adds_to: Tensor | None,
) -> None:
    num_rows, channels = begin.numel(), out.size(1)
    block = min(triton.next_power_of_2(channels), 256)
    rows = max(1, _TILE // block)
    grid = (triton.cdiv(num_rows, rows), triton.cdiv(channels, block))
    _kernel[grid](
        begin, end, col, value, dense, out, adds_to, num_rows, channels,
        HAS_COL=col is not None, HAS_VALUE=value is not None, ADDS=adds_to is not None,
        SUM=tl.float64 if dense.dtype == torch.float64 else tl.float32,
        ROWS=rows, BLOCK=block, num_warps=4,
    )  # fmt: skip
