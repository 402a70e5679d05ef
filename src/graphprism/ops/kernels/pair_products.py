"""The products of pairs as Triton kernels: a program multiplies 64 rows, for the relations active among them.

Measured on an H200, 144 channels, 3 relations, 54 % of the tiles active, microseconds of the kernel and of cuBLAS on
all tiles. Float32 (TF32): 27 runs of 816 rows 18 and 30 forward, 24 and 31 backward (gate included); 9 runs 7 and 12
forward, 10 and 14 to 18 backward. A matrix unit needs the summed channels of the second float32 factor contiguous: in
the other layout the product of 27 runs takes 53. Hence the transposed copy of the matrices for backward, all layers in
one kernel (31). Column sums inside the backward kernel took 8 of 32; a separate kernel takes 3 per layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.batched.pair_products import MOST_RELATIONS, TILE
from graphprism.ops.kernels import bulk_copies, ceil_div, dot_precision, power_of_2_from

# Channels that one pass of the loop over them reads.
_DEPTH = 16
# What is read ahead, in passes of that loop.
_STAGES = 4
# Rows of all runs from which on their number, and not the way of one of them, decides.
_MANY = 4096
_MOST_CHANNELS = 256
# Relations that the way back is written out for: of more, one loop over them, or its code would grow with each.
_WRITTEN_OUT = 8


@triton.jit
def _product_kernel(
    x, matrix, active, out, num_rows, num_tiles, matrix_run,
    IN: tl.constexpr, OUT: tl.constexpr, RELATION: tl.constexpr, CHANNELS: tl.constexpr, RELATIONS: tl.constexpr,
    PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, REST: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    tile, r, run = tl.program_id(0) // COLUMNS, tl.program_id(1), tl.program_id(2).to(tl.int64)
    begin = tl.program_id(0) % COLUMNS * WIDE
    if (tl.load(active + run * num_tiles + tile) >> r) & 1:
        row = tile * ROWS + tl.arange(0, ROWS)
        there = (row < num_rows)[:, None]
        depth, wide, rest = tl.arange(0, DEPTH), begin + tl.arange(0, WIDE), WIDE + tl.arange(0, REST)
        rows = x + (run * num_rows + row)[:, None] * CHANNELS + depth[None, :]
        weights = matrix + run * matrix_run + r * RELATION + depth[:, None] * IN
        total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        total_rest = tl.zeros((ROWS, REST), dtype=tl.float32)
        total, total_rest = _multiply(
            total, total_rest, rows, weights, wide, rest, there, IN, OUT, CHANNELS, PRECISION, DEPTH, REST
        )
        own = (run * num_rows + row)[:, None] * RELATIONS + r
        _finish(total, None, out, own, wide, there, CHANNELS, False)
        if REST > 1:
            _finish(total_rest, None, out, own, rest, there, CHANNELS, False)


@triton.jit
def _back_kernel(
    back, matrix, active, gate, out, num_rows, num_tiles, matrix_run,
    IN: tl.constexpr, OUT: tl.constexpr, RELATION: tl.constexpr, CHANNELS: tl.constexpr, RELATIONS: tl.constexpr,
    HAS_GATE: tl.constexpr, PRECISION: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    WIDE: tl.constexpr, REST: tl.constexpr, WRITTEN_OUT: tl.constexpr,
):  # fmt: skip
    tile, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    begin = tl.program_id(2) * WIDE
    bits = tl.load(active + run * num_tiles + tile)
    row = tile * ROWS + tl.arange(0, ROWS)
    there = (row < num_rows)[:, None]
    own = (run * num_rows + row)[:, None]
    depth, wide, rest = tl.arange(0, DEPTH), begin + tl.arange(0, WIDE), WIDE + tl.arange(0, REST)
    total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    total_rest = tl.zeros((ROWS, REST), dtype=tl.float32)
    if RELATIONS <= WRITTEN_OUT:
        for r in tl.static_range(RELATIONS):
            if (bits >> r) & 1:
                rows = back + (own * RELATIONS + r) * CHANNELS + depth[None, :]
                weights = matrix + run * matrix_run + r * RELATION + depth[:, None] * OUT
                total, total_rest = _multiply(
                    total, total_rest, rows, weights, wide, rest, there, OUT, IN, CHANNELS, PRECISION, DEPTH, REST
                )
    else:
        for r in range(RELATIONS):
            if (bits >> r) & 1:
                rows = back + (own * RELATIONS + r) * CHANNELS + depth[None, :]
                weights = matrix + run * matrix_run + r * RELATION + depth[:, None] * OUT
                total, total_rest = _multiply(
                    total, total_rest, rows, weights, wide, rest, there, OUT, IN, CHANNELS, PRECISION, DEPTH, REST
                )
    _finish(total, gate, out, own, wide, there, CHANNELS, HAS_GATE)
    if REST > 1:
        _finish(total_rest, gate, out, own, rest, there, CHANNELS, HAS_GATE)


@triton.jit
def _multiply(
    total, total_rest, rows, weights, wide, rest, there,
    SUMMED: tl.constexpr, OTHER: tl.constexpr, CHANNELS: tl.constexpr,
    PRECISION: tl.constexpr, DEPTH: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """Adds the product of a tile of rows and one matrix with the given strides to the totals."""
    for first in range(0, CHANNELS, DEPTH):
        a = tl.load(rows + first, mask=there, other=0.0)
        at = weights + first * SUMMED + wide[None, :] * OTHER
        b = tl.load(at, mask=(wide < CHANNELS)[None, :], other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        if REST > 1:
            at = weights + first * SUMMED + rest[None, :] * OTHER
            b = tl.load(at, mask=(rest < CHANNELS)[None, :], other=0.0)
            total_rest = tl.dot(a, b, total_rest, input_precision=PRECISION)
    return total, total_rest


@triton.jit
def _finish(total, gate, out, own, channel, there, CHANNELS: tl.constexpr, HAS_GATE: tl.constexpr):
    inside = there & (channel < CHANNELS)[None, :]
    if HAS_GATE:
        total = tl.where(tl.load(gate + own * CHANNELS + channel[None, :], mask=inside, other=0.0) > 0, total, 0.0)
    tl.store(out + own * CHANNELS + channel[None, :], total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _turn_kernel(matrix, out, matrix_layer, matrix_run, num_runs, CHANNELS: tl.constexpr, RELATIONS: tl.constexpr,
                 SIDE: tl.constexpr):  # fmt: skip
    blocks: tl.constexpr = (CHANNELS + SIDE - 1) // SIDE
    i = (tl.program_id(0) // blocks) * SIDE + tl.arange(0, SIDE)
    j = (tl.program_id(0) % blocks) * SIDE + tl.arange(0, SIDE)
    r, batch = tl.program_id(1), tl.program_id(2).to(tl.int64)
    layer, run = batch // num_runs, batch % num_runs
    inside = (i < CHANNELS)[:, None] & (j < CHANNELS)[None, :]
    source = matrix + layer * matrix_layer + run * matrix_run + r * CHANNELS * CHANNELS
    part = tl.load(source + i[:, None] * CHANNELS + j[None, :], mask=inside, other=0.0)
    inside = (j < CHANNELS)[:, None] & (i < CHANNELS)[None, :]
    target = out + (batch * CHANNELS + j)[:, None] * (RELATIONS * CHANNELS) + r * CHANNELS + i[None, :]
    tl.store(target, tl.trans(part), mask=inside)


def takes(matrix: Tensor) -> bool:
    """Whether the kernels support such matrices, (K, F, R * F)."""
    channels, both = matrix.shape[1:]
    fits = channels % _DEPTH == 0 and both % channels == 0 and 1 < both // channels <= MOST_RELATIONS
    fits = fits and matrix.stride() in ((matrix.stride(0), both, 1), (matrix.stride(0), 1, channels))
    return fits and matrix.is_cuda and matrix.dtype in (torch.float32, torch.bfloat16, torch.float16)


def pair_product(x: Tensor, matrix: Tensor, active: Tensor) -> Tensor:
    """Launches one program per tile, relation and run; few rows go to cuBLAS, which is as fast for them."""
    num_runs, num_rows, channels = x.shape
    if x.dtype == torch.float32 and (matrix.stride(1) != 1 or num_runs * num_rows < _MANY):
        return torch.bmm(x, matrix)
    relations = matrix.size(2) // channels
    wide, rest, columns = blocks(channels)
    if num_runs * num_rows >= _MANY and bulk_copies.takes(matrix, columns):
        return bulk_copies.pair_product(x.contiguous(), matrix, active, wide, rest)
    out = x.new_empty(num_runs, num_rows, relations * channels)
    _product_kernel[(ceil_div(num_rows, TILE) * columns, relations, num_runs)](
        x.contiguous(), matrix, active, out, num_rows, active.size(1), matrix.stride(0), **_strides(matrix),
        CHANNELS=channels, RELATIONS=relations, PRECISION=dot_precision(),
        ROWS=TILE, DEPTH=_DEPTH, WIDE=wide, REST=rest, COLUMNS=columns, num_warps=4, num_stages=_STAGES,
    )  # fmt: skip
    return out


def pair_product_back(back: Tensor, matrix: Tensor, active: Tensor, gate: Tensor | None, out: Tensor) -> None:
    """Launches one program per tile and run; with few rows, also per block of channels."""
    num_runs, num_rows, channels = out.shape
    wide, rest, columns = blocks(channels)
    if num_runs * num_rows < _MANY:
        wide, rest, columns = 32, 1, ceil_div(channels, 32)
    elif bulk_copies.takes(matrix, columns):
        bulk_copies.pair_product_back(back, matrix, active, gate, out, wide, rest)
        return
    _back_kernel[(ceil_div(num_rows, TILE), num_runs, columns)](
        back, matrix, active, gate, out, num_rows, active.size(1), matrix.stride(0), **_strides(matrix),
        CHANNELS=channels, RELATIONS=back.size(2) // channels, HAS_GATE=gate is not None, PRECISION=dot_precision(),
        ROWS=TILE, DEPTH=_DEPTH, WIDE=wide, REST=rest, WRITTEN_OUT=_WRITTEN_OUT, num_warps=4, num_stages=_STAGES,
    )  # fmt: skip


def turn_matrices(matrices: Sequence[Tensor]) -> list[Tensor]:
    """Transposed copies for float32; one launch for all layers if they are evenly spaced in memory."""
    if matrices[0].dtype != torch.float32 or matrices[0].stride(1) != 1:
        return list(matrices)
    gaps = {b.data_ptr() - a.data_ptr() for a, b in pairwise(matrices)}
    if len(gaps) == 1:
        return _turn(matrices, gaps.pop())
    return [turned for each in matrices for turned in _turn([each], 0)]


def _turn(matrices: Sequence[Tensor], gap: int) -> list[Tensor]:
    """Transposed copies of matrices that are ``gap`` bytes apart."""
    first, side = matrices[0], 32
    num_runs, channels, both = first.shape
    relations = both // channels
    out = first.new_empty(len(matrices), num_runs, channels, both)
    _turn_kernel[(ceil_div(channels, side) ** 2, relations, len(matrices) * num_runs)](
        first, out, gap // first.element_size(), first.stride(0), num_runs,
        CHANNELS=channels, RELATIONS=relations, SIDE=side, num_warps=4,
    )  # fmt: skip
    return list(out.unbind())


def _strides(matrix: Tensor) -> dict[str, int]:
    """Strides of channels and of relations."""
    channels = matrix.size(1)
    if matrix.stride(2) == 1:
        return {"IN": matrix.stride(1), "OUT": 1, "RELATION": channels}
    return {"IN": 1, "OUT": matrix.stride(2), "RELATION": channels * matrix.stride(2)}


def blocks(channels: int) -> tuple[int, int, int]:
    """Channels per program, as a power of two plus a remainder padded to one, and the number of programs.

    144 is 128 and 16, where 256 would waste half. One program holds 256 channels at most: beyond, registers spill.
    """
    wide = 1 << (channels.bit_length() - 1)
    rest = 1 if wide == channels else max(16, power_of_2_from(channels - wide))
    if wide + rest > _MOST_CHANNELS:
        return _MOST_CHANNELS // 2, 1, ceil_div(channels, _MOST_CHANNELS // 2)
    return wide, rest, 1
