"""The products of `pair_products` in half precision, with tiles loaded by the copy engine (TMA, from Hopper on).

A program loads whole boxes and computes no addresses. Measured on an H200 in bfloat16, 144 channels, eight layers,
microseconds with TMA and with ordinary loads: 27 runs 96 and 107 forward, 122 and 131 backward; 9 runs 45 and 56
forward, 83 and 98 backward. In float32 it is no faster.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphprism.ops.batched.pair_products import TILE
from graphprism.ops.kernels import ceil_div

# Channels that one pass of a loop brings: a line of the cache.
_DEPTH = 64
# A box begins at a multiple of so many numbers, and is as far from the next: 16 bytes.
_ALIGNED = 8


@triton.jit
def _product_kernel(
    x, matrix, matrix_rest, active, out, num_rows, num_tiles,
    CHANNELS: tl.constexpr, RELATIONS: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    tile, r, run = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if (tl.load(active + run * num_tiles + tile) >> r) & 1:
        total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        total_rest = tl.zeros((ROWS, REST), dtype=tl.float32)
        for first in range(0, CHANNELS, DEPTH):  # zeros come for channels beyond the last
            a = x.load([run, tile * ROWS, first]).reshape(ROWS, DEPTH)
            b = matrix.load([run, r, 0, first]).reshape(WIDE, DEPTH)
            total = tl.dot(a, b.T, total)
            if REST > 1:
                b_rest = matrix_rest.load([run, r, WIDE, first]).reshape(REST, DEPTH)
                total_rest = tl.dot(a, b_rest.T, total_rest)
        row = tile * ROWS + tl.arange(0, ROWS)
        own = ((run.to(tl.int64) * num_rows + row)[:, None] * RELATIONS + r) * CHANNELS
        there = (row < num_rows)[:, None]
        _put(total, out, own, tl.arange(0, WIDE), there, CHANNELS)
        if REST > 1:
            _put(total_rest, out, own, WIDE + tl.arange(0, REST), there, CHANNELS)


@triton.jit
def _back_kernel(
    back, matrix, matrix_rest, active, gate, out, num_rows, num_tiles,
    CHANNELS: tl.constexpr, RELATIONS: tl.constexpr, HAS_GATE: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    tile, run = tl.program_id(0), tl.program_id(1)
    row = tile * ROWS + tl.arange(0, ROWS)
    own = (run.to(tl.int64) * num_rows + row)[:, None] * CHANNELS
    there = (row < num_rows)[:, None]
    wide, rest = tl.arange(0, WIDE), WIDE + tl.arange(0, REST)
    if HAS_GATE:  # loaded before the loop: its latency is hidden
        gates = tl.load(gate + own + wide[None, :], mask=there & (wide < CHANNELS)[None, :], other=0.0)
        gates_rest = tl.load(gate + own + rest[None, :], mask=there & (rest < CHANNELS)[None, :], other=0.0)
    left = tl.load(active + run * num_tiles + tile)
    count = 0
    for bit in tl.static_range(RELATIONS):
        count += (left >> bit) & 1
    passes: tl.constexpr = (CHANNELS + DEPTH - 1) // DEPTH
    total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    total_rest = tl.zeros((ROWS, REST), dtype=tl.float32)
    # one loop over the channels of all relations, so that those of the next are on their way
    for step in range(count * passes):
        first = step % passes * DEPTH
        lowest = left & -left
        # the number of the lowest bit is the exponent of its float
        r = (lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) - 127
        left = tl.where(step % passes == passes - 1, left - lowest, left)
        a = back.load([run, tile * ROWS, r, first]).reshape(ROWS, DEPTH)
        b = matrix.load([run, r, first, 0]).reshape(DEPTH, WIDE)
        total = tl.dot(a, b, total)
        if REST > 1:
            b_rest = matrix_rest.load([run, r, first, WIDE]).reshape(DEPTH, REST)
            total_rest = tl.dot(a, b_rest, total_rest)
    if HAS_GATE:
        total = tl.where(gates > 0, total, 0.0)
        total_rest = tl.where(gates_rest > 0, total_rest, 0.0)
    _put(total, out, own, wide, there, CHANNELS)
    if REST > 1:
        _put(total_rest, out, own, rest, there, CHANNELS)


@triton.jit
def _put(total, out, own, channel, there, CHANNELS: tl.constexpr):
    inside = there & (channel < CHANNELS)[None, :]
    tl.store(out + own + channel[None, :], total.to(out.dtype.element_ty), mask=inside)


def takes(matrix: Tensor, columns: int) -> bool:
    """Whether TMA is available and can load such matrices, stored with the summed channels last."""
    fits = matrix.element_size() == 2 and matrix.stride(1) == 1 and columns == 1 and matrix.size(1) >= _DEPTH
    fits = fits and matrix.stride(0) % _ALIGNED == 0 and matrix.data_ptr() % 16 == 0
    return fits and (not matrix.is_cuda or torch.cuda.get_device_capability(matrix.device) >= (9, 0))


def pair_product(x: Tensor, matrix: Tensor, active: Tensor, wide: int, rest: int) -> Tensor:
    """Launches one program per tile, relation and run."""
    num_runs, num_rows, channels = x.shape
    relations = matrix.size(2) // channels
    out = x.new_empty(num_runs, num_rows, relations * channels)
    rows = TensorDescriptor(x, [*x.shape], [*x.stride()], [1, TILE, _DEPTH])
    _product_kernel[(ceil_div(num_rows, TILE), relations, num_runs)](
        rows, _boxes(matrix, wide, _DEPTH), _boxes(matrix, rest, _DEPTH), active, out, num_rows, active.size(1),
        CHANNELS=channels, RELATIONS=relations, ROWS=TILE, DEPTH=_DEPTH, WIDE=wide, REST=rest,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return out


def pair_product_back(
    back: Tensor, matrix: Tensor, active: Tensor, gate: Tensor | None, out: Tensor, wide: int, rest: int
) -> None:
    """Launches one program per tile and run."""
    num_runs, num_rows, channels = out.shape
    relations = back.size(2) // channels
    by_relation = back.unflatten(2, (relations, channels))
    rows = TensorDescriptor(by_relation, [*by_relation.shape], [*by_relation.stride()], [1, TILE, 1, _DEPTH])
    _back_kernel[(ceil_div(num_rows, TILE), num_runs)](
        rows, _boxes(matrix, _DEPTH, wide), _boxes(matrix, _DEPTH, rest), active, gate, out, num_rows, active.size(1),
        CHANNELS=channels, RELATIONS=relations, HAS_GATE=gate is not None, ROWS=TILE, DEPTH=_DEPTH,
        WIDE=wide, REST=rest, num_warps=4, num_stages=3,
    )  # fmt: skip


def _boxes(matrix: Tensor, outer: int, inner: int) -> TensorDescriptor:
    """Descriptor of matrices (K, F, R * F) as (K, R, F, F), summed channels last, in boxes of the given channels."""
    num_runs, channels, both = matrix.shape
    shape = [num_runs, both // channels, channels, channels]
    strides = [matrix.stride(0), channels * channels, channels, 1]
    return TensorDescriptor(matrix, shape, strides, [1, 1, outer, max(inner, _ALIGNED)])
