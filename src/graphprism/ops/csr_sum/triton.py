"""`csr_sum` as a Triton kernel: a program sums a few rows side by side, in float32, without atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.csr_sum.segments import Segments

# Numbers that one program holds: rows side by side keep many reads in flight, where one row alone waits for each of them.
_TILE = 512


@triton.jit
def _kernel(
    begin_of, end_of, col, value, dense, out, num_rows, channels,
    HAS_COL: tl.constexpr, HAS_VALUE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    begin = tl.load(begin_of + row, mask=row < num_rows, other=0)
    count = tl.load(end_of + row, mask=row < num_rows, other=0) - begin
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for k in range(0, tl.max(count, axis=0)):
        here = k < count
        source = tl.load(col + begin + k, mask=here, other=0) if HAS_COL else begin + k
        # int64 addresses: a table of 2^31 numbers is an everyday graph
        address = source.to(tl.int64)[:, None] * channels + channel[None, :]
        entry = tl.load(dense + address, mask=here[:, None] & inside[None, :], other=0.0).to(tl.float32)
        if HAS_VALUE:
            entry = tl.load(value + begin + k, mask=here, other=0.0).to(tl.float32)[:, None] * entry
        total += entry
    address = row.to(tl.int64)[:, None] * channels + channel[None, :]
    tl.store(out + address, total.to(out.dtype.element_ty), mask=(row < num_rows)[:, None] & inside[None, :])


def csr_sum(segments: Segments, col: Tensor, value: Tensor | None, dense: Tensor, num_rows: int) -> Tensor:
    """Sums all pieces at once, then adds the further pieces of the few rows that have them."""
    dense = dense.contiguous()
    pieces = dense.new_empty(segments.begin.numel(), dense.size(1))
    if pieces.numel() == 0:
        return pieces
    _launch(segments.begin, segments.end, col, value, dense, pieces)
    out = pieces[:num_rows]
    if segments.hub.numel() > 0:
        further = dense.new_empty(segments.hub.numel(), dense.size(1))
        _launch(segments.hub_ptr[:-1], segments.hub_ptr[1:], None, None, pieces[num_rows:], further)
        out.index_add_(0, segments.hub, further)  # every row once, so nothing depends on the order
    return out


def _launch(begin: Tensor, end: Tensor, col: Tensor | None, value: Tensor | None, dense: Tensor, out: Tensor) -> None:
    num_rows, channels = out.shape
    block = min(triton.next_power_of_2(channels), 256)
    rows = max(1, _TILE // block)
    grid = (triton.cdiv(num_rows, rows), triton.cdiv(channels, block))
    with torch.cuda.device(out.device):
        _kernel[grid](
            begin, end, col, value, dense, out, num_rows, channels,
            HAS_COL=col is not None, HAS_VALUE=value is not None, ROWS=rows, BLOCK=block, num_warps=4,
        )  # fmt: skip
