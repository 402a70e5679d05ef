"""`csr_sum` as a Triton kernel: a program sums pieces of rows, all channels at once, in float32, without atomics.

Measured on an H200 against cuSPARSE: 0.13 against 0.20 ms (169k nodes, 3 relations, 1.17M entries, 64 channels), 0.41
against 0.61 ms (256 channels), 1.7 against 2.2 ms (2.9M nodes, 14M entries, 32 channels).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.csr_sum.segments import Segments

_ROWS = 4  # pieces that one program sums one after another


@triton.jit
def _kernel(
    begin_of, end_of, col, value, dense, out, num_rows, channels,
    HAS_COL: tl.constexpr, HAS_VALUE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    offsets = tl.arange(0, BLOCK)
    inside = offsets < channels
    first = tl.program_id(0) * ROWS
    for row in range(first, min(first + ROWS, num_rows)):
        begin = tl.load(begin_of + row)
        end = tl.load(end_of + row)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for k in range(begin, end):
            source = tl.load(col + k) if HAS_COL else k
            # int64 addresses: a table of 2^31 numbers is an everyday graph
            entry = tl.load(dense + source.to(tl.int64) * channels + offsets, mask=inside, other=0.0).to(tl.float32)
            total += tl.load(value + k).to(tl.float32) * entry if HAS_VALUE else entry
        tl.store(out + row.to(tl.int64) * channels + offsets, total.to(out.dtype.element_ty), mask=inside)


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
    block = triton.next_power_of_2(channels)
    with torch.cuda.device(out.device):
        _kernel[(triton.cdiv(num_rows, _ROWS),)](
            begin, end, col, value, dense, out, num_rows, channels,
            HAS_COL=col is not None, HAS_VALUE=value is not None, BLOCK=block, ROWS=_ROWS,
            num_warps=1 if block <= 256 else 4,
        )  # fmt: skip
