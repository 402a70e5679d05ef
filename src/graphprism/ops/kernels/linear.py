"""`relational_linear` as two fused Triton kernels (gather, sum, multiply) that write no sums to memory.

A program processes 16 rows of `NodeTiles`. It sums the rows of their neighbours in registers, one sum per relation, and
multiplies the sums there; relations in which no row of the tile has an entry are skipped. One loop over the entries
covers all relations: the position of an entry gives its relation. The gradient of the weights is accumulated by a fixed
number of programs, each over many tiles, without atomics.

Hubs are cut into pieces: the first one writes the node's row, a second kernel adds the products of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, device_of, dot_precision, power_of_2_from
from graphprism.ops.kernels.csr_sum import add_ranges
from graphprism.ops.kernels.launch import Launch
from graphprism.ops.mix_rows import mix_rows
from graphprism.ops.row_orders import TILE_RELATIONS, TILE_ROWS, NodeTiles, node_tiles

if TYPE_CHECKING:
    from graphprism.ops.linear_csr import Gradients
    from graphprism.ops.relational_adj import RelationalAdj


class Shape(NamedTuple):
    """Entries of each row that are read at once, and warps and registers of a program."""

    unroll: int
    warps: int
    registers: int | None = None


# By channels of a block. What a multiprocessor waits for is memory: programs of few warps have no barriers to wait at,
# and few registers let more of them run at once, though some are spilled.
FORWARD = {16: Shape(2, 4), 32: Shape(2, 4), 64: Shape(4, 4)}
BACKWARD = {16: Shape(2, 2, 80), 32: Shape(2, 2, 80), 64: Shape(4, 4, 168)}
# Programs that add up the gradient of the weights, for each multiprocessor: those that run at once.
PROGRAMS = {16: 12, 32: 12, 64: 3}
# Rows of the output's gradient that a program adds up at once, for the gradient of the bias.
_BIAS_ROWS = 64
# Numbers of the gradient of the weights, and programs whose parts of them are added up at once.
_TOTAL_NUMBERS = 64
_TOTAL_ROWS = 16
# How float32 is multiplied where PyTorch is told to keep all of it: by three products of parts, which are as exact as
# "ieee" (2e-7) and, measured on 2.9M nodes of 32 channels, take 3.6 instead of 10 ms forward and backward.
HIGHEST = "tf32x3"


@triton.jit
def _sums(
    first_slot, stop, start, packed, col, value, dense, first_channel,
    GROUP: tl.constexpr, ONE_GROUP: tl.constexpr, HAS_VALUE: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    lane, channel = tl.arange(0, ROWS), first_channel + tl.arange(0, BLOCK)
    end0, end1 = packed & 255, (packed >> 8) & 255
    end2, end3 = (packed >> 16) & 255, (packed >> 24) & 255
    sum0 = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    sum1, sum2, sum3 = sum0, sum0, sum0
    for begin_k in range(
        0 if ONE_GROUP else tl.min(start, axis=0), stop if ONE_GROUP else tl.max(end3, axis=0), UNROLL
    ):
        for step in tl.static_range(UNROLL):
            k = begin_k + step
            slot = first_slot + k * ROWS + lane  # unused slots are there, too: what they hold is not added
            source = tl.load(col + slot, mask=k < stop, other=0)
            here = (k >= start) & (k < end3)
            wanted = here[:, None] if CHANNELS == BLOCK else here[:, None] & (channel < CHANNELS)[None, :]
            # int64 addresses: a table of 2^31 numbers is an everyday graph
            address = source.to(tl.int64)[:, None] * CHANNELS + channel[None, :]
            entry = tl.load(dense + address, mask=wanted, other=0.0).to(tl.float32)
            if HAS_VALUE:
                entry = tl.load(value + slot, mask=k < stop, other=0.0).to(tl.float32)[:, None] * entry
            # a choice and no product: zero times infinity is not zero
            sum0 += tl.where((here & (k < end0))[:, None], entry, 0.0)
            if GROUP > 1:
                sum1 += tl.where(((k >= end0) & (k < end1))[:, None], entry, 0.0)
            if GROUP > 2:
                sum2 += tl.where(((k >= end1) & (k < end2))[:, None], entry, 0.0)
            if GROUP > 3:
                sum3 += tl.where(((k >= end2) & here)[:, None], entry, 0.0)
    return sum0, sum1, sum2, sum3


@triton.jit
def _matrix(
    weight, relation, num_relations, first_f, first_o, TURNED: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    f, o = (first_f + tl.arange(0, IN))[:, None], (first_o + tl.arange(0, OUT))[None, :]
    place = o * F_IN + f if TURNED else f * F_OUT + o
    inside = (f < F_IN) & (o < F_OUT) & (relation < num_relations)
    return tl.load(weight + relation * (F_IN * F_OUT) + place, mask=inside, other=0.0)


@triton.jit
def _add_product(total, left, right, is_active, PRECISION: tl.constexpr):
    if is_active:
        total = tl.dot(left, right.to(left.dtype), total, input_precision=PRECISION)
    return total


@triton.jit
def _store(
    y, to, there, out, further, num_nodes, first_channel,
    HAS_PIECES: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    channel = (first_channel + tl.arange(0, BLOCK))[None, :]
    inside = there[:, None] & (channel < CHANNELS)
    to = to.to(tl.int64)[:, None]  # before any product: that of a number of nodes and of channels exceeds int32, too
    if HAS_PIECES:
        is_whole = to < num_nodes
        tl.store(further + (to - num_nodes) * CHANNELS + channel, y, mask=inside & ~is_whole)
        inside = inside & is_whole
    tl.store(out + to * CHANNELS + channel, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _forward_kernel(
    dense, value, weight, bias, out, further, target, ends, active, start, col,
    num_rows, num_tiles, num_nodes, num_relations, num_groups,
    GROUP: tl.constexpr, ONE_GROUP: tl.constexpr, TURNED: tl.constexpr, HAS_BIAS: tl.constexpr,
    HAS_PIECES: tl.constexpr, HAS_VALUE: tl.constexpr, PRECISION: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    IN_PARTS: tl.constexpr, OUT_PARTS: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    first_o = 0 if OUT_PARTS == 1 else tl.program_id(1) * OUT
    row = tile * ROWS + tl.arange(0, ROWS)
    there = row < num_rows
    slot = tl.load(start + tile)
    longest = ((tl.load(start + tile + 1) - slot) // ROWS).to(tl.int32)
    to = tl.load(target + row, mask=there, other=0)
    begin = tl.zeros((ROWS,), dtype=tl.int32)
    y = tl.zeros((ROWS, OUT), dtype=tl.float32)
    for group in range(0, num_groups):
        packed = tl.load(ends + group * num_rows + row, mask=there, other=0)
        bits = tl.load(active + group * num_tiles + tile)
        for part in tl.static_range(IN_PARTS):
            sums = _sums(slot, longest, begin, packed, col, value, dense, part * IN,
                         GROUP, ONE_GROUP, HAS_VALUE, F_IN, IN, ROWS, UNROLL)  # fmt: skip
            for r in tl.static_range(GROUP):
                if (bits >> r) & 1 == 1:
                    matrix = _matrix(weight, group * GROUP + r, num_relations, part * IN, first_o,
                                     TURNED, F_IN, F_OUT, IN, OUT)  # fmt: skip
                    y = tl.dot(sums[r].to(matrix.dtype), matrix, y, input_precision=PRECISION)
        begin = (packed >> 24) & 255
    if HAS_BIAS:  # once for each node
        o = first_o + tl.arange(0, OUT)
        added = tl.load(bias + o, mask=o < F_OUT, other=0.0).to(tl.float32)[None, :]
        y += tl.where((to < num_nodes)[:, None], added, 0.0)
    _store(y, to, there, out, further, num_nodes, first_o, HAS_PIECES, F_OUT, OUT)


@triton.jit
def _backward_kernel(
    grad, value, x, weight, grad_x, further, partial, node, target, ends, active, start, col,
    num_rows, num_tiles, num_nodes, num_relations, group, num_grads,
    GROUP: tl.constexpr, ONE_GROUP: tl.constexpr, NEED_X: tl.constexpr, NEED_BIAS: tl.constexpr,
    HAS_PIECES: tl.constexpr, HAS_VALUE: tl.constexpr, PRECISION: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    IN_PARTS: tl.constexpr, OUT_PARTS: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr,
    BIAS_ROWS: tl.constexpr,
):  # fmt: skip
    first_f = 0 if IN_PARTS == 1 else tl.program_id(1) // OUT_PARTS * IN
    first_o = 0 if OUT_PARTS == 1 else tl.program_id(1) % OUT_PARTS * OUT
    f = first_f + tl.arange(0, IN)
    part0 = tl.zeros((IN, OUT), dtype=tl.float32)
    part1, part2, part3 = part0, part0, part0
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        there = row < num_rows
        slot = tl.load(start + tile)
        longest = ((tl.load(start + tile + 1) - slot) // ROWS).to(tl.int32)
        packed = tl.load(ends + group * num_rows + row, mask=there, other=0)
        bits = tl.load(active + group * num_tiles + tile)
        begin = tl.zeros((ROWS,), dtype=tl.int32)
        if not ONE_GROUP:
            begin = (tl.load(ends + (group - 1) * num_rows + row, mask=there & (group > 0), other=0) >> 24) & 255
        own = tl.load(node + row, mask=there, other=0).to(tl.int64)[:, None] * F_IN + f[None, :]
        turned = tl.trans(tl.load(x + own, mask=there[:, None] & (f < F_IN)[None, :], other=0.0))
        back = _sums(slot, longest, begin, packed, col, value, grad, first_o,
                     GROUP, ONE_GROUP, HAS_VALUE, F_OUT, OUT, ROWS, UNROLL)  # fmt: skip
        part0 = _add_product(part0, turned, back[0], bits & 1 == 1, PRECISION)
        if GROUP > 1:
            part1 = _add_product(part1, turned, back[1], bits & 2 == 2, PRECISION)
        if GROUP > 2:
            part2 = _add_product(part2, turned, back[2], bits & 4 == 4, PRECISION)
        if GROUP > 3:
            part3 = _add_product(part3, turned, back[3], bits & 8 == 8, PRECISION)
        if NEED_X:
            y = tl.zeros((ROWS, IN), dtype=tl.float32)
            for r in tl.static_range(GROUP):
                if (bits >> r) & 1 == 1:
                    matrix = _matrix(weight, group * GROUP + r, num_relations, 0, 0, True, F_OUT, F_IN, OUT, IN)
                    y = tl.dot(back[r].to(matrix.dtype), matrix, y, input_precision=PRECISION)
            to = tl.load(target + row, mask=there, other=0)
            _store(y, to, there, grad_x, further, num_nodes, 0, HAS_PIECES, F_IN, IN)
    parts = (part0, part1, part2, part3)
    o = first_o + tl.arange(0, OUT)
    partial += tl.program_id(0).to(tl.int64) * (GROUP * F_IN * F_OUT + (F_OUT if NEED_BIAS else 0))
    for r in tl.static_range(GROUP):
        place = partial + r * (F_IN * F_OUT) + f[:, None] * F_OUT + o[None, :]
        tl.store(place, parts[r], mask=(f < F_IN)[:, None] & (o < F_OUT)[None, :])
    if NEED_BIAS:
        total = tl.zeros((BIAS_ROWS, OUT), dtype=tl.float32)
        for first in range(tl.program_id(0) * BIAS_ROWS, num_grads, tl.num_programs(0) * BIAS_ROWS):
            row = first + tl.arange(0, BIAS_ROWS)
            wanted = (row < num_grads)[:, None] & (o < F_OUT)[None, :]
            total += tl.load(grad + row.to(tl.int64)[:, None] * F_OUT + o[None, :], mask=wanted, other=0.0).to(
                tl.float32
            )
        # all parts of the inputs find the same, and one of them stores it
        is_first = first_f == 0
        tl.store(partial + GROUP * F_IN * F_OUT + o, tl.sum(total, axis=0), mask=(o < F_OUT) & is_first)


@triton.jit
def _add_programs(partial, num_programs, width, place, inside, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for first in range(0, num_programs, ROWS):
        row = first + tl.arange(0, ROWS)
        wanted = (row < num_programs)[:, None] & inside[None, :]
        total += tl.load(partial + row.to(tl.int64)[:, None] * width + place[None, :], mask=wanted, other=0.0)
    return tl.sum(total, axis=0)


@triton.jit
def _total_kernel(
    partial, adjoint, matrices, bias, num_programs, numbers, width, given,
    SIZE: tl.constexpr, HAS_ADJOINT: tl.constexpr, HAS_BIAS: tl.constexpr, GROUP: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, matrix = place < numbers, tl.arange(0, GROUP)
    mixed = tl.zeros((GROUP, BLOCK), dtype=tl.float32)
    for r in tl.static_range(SIZE):
        found = _add_programs(partial, num_programs, width, r * numbers + place, inside, ROWS, BLOCK)
        if HAS_ADJOINT:
            factor = tl.load(adjoint + matrix * SIZE + r, mask=matrix < SIZE, other=0.0).to(tl.float32)
            mixed += factor[:, None] * found[None, :]
        else:
            mixed = tl.where((matrix == r)[:, None], found[None, :], mixed)
    to = matrices + matrix[:, None] * numbers + place[None, :]
    tl.store(to, mixed.to(matrices.dtype.element_ty), mask=(matrix < given)[:, None] & inside[None, :])
    if HAS_BIAS:  # noqa: SIM102  decided by the compiler; its gradient comes after those of the matrices
        if SIZE * numbers + tl.program_id(0) * BLOCK < width:
            inside = SIZE * numbers + place < width
            found = _add_programs(partial, num_programs, width, SIZE * numbers + place, inside, ROWS, BLOCK)
            tl.store(bias + place, found.to(bias.dtype.element_ty), mask=inside)


def sum_and_multiply(
    tiles: NodeTiles,
    num_relations: int,
    value: Tensor | None,
    dense: Tensor,
    weight: Tensor,
    turned: bool,
    out: Tensor,
    bias: Tensor | None = None,
) -> None:
    """Writes ``out``; with ``turned`` the matrices of ``weight`` are read transposed."""
    further = _further(tiles, out)
    if tiles.num_tiles == 0:
        return
    has_value, has_bias, precision = value is not None, bias is not None, _precision(dense)
    key = ("forward", dense.size(1), out.size(1), turned, has_value, has_bias, precision)
    if (launch := tiles.launches.get(key)) is None:
        fixed = (
            tiles.target, tiles.ends, tiles.active, tiles.start, tiles.col,
            tiles.node.numel(), tiles.num_tiles, out.size(0), num_relations, tiles.ends.size(0),
        )  # fmt: skip
        launch = tiles.launches[key] = Launch(
            _forward_kernel, (tiles.num_tiles, _parts(out.size(1))), fixed, TURNED=turned, HAS_BIAS=has_bias,
            **_meta(tiles, num_relations, has_value, precision, dense.size(1), out.size(1), FORWARD),
        )  # fmt: skip
    launch(dense, value, weight, bias, out, further)
    _add_pieces(tiles, further, out)


def weight_gradient(
    tiles: NodeTiles,
    num_relations: int,
    value: Tensor | None,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    grad_weight: Tensor,
    group: int = 0,
    grad_x: Tensor | None = None,
    grad_bias: Tensor | None = None,
    adjoint: Tensor | None = None,
) -> None:
    """Writes the gradient of up to four matrices, those of the ``group``-th four, into ``grad_weight``.

    Writes that of a bias, ``grad_x``, and multiplies by ``adjoint``, where these are given; the last two only if there
    are no more relations than these.
    """
    in_channels, out_channels = weight.shape[1:]
    has_value, need_x, need_bias, has_adjoint = (each is not None for each in (value, grad_x, grad_bias, adjoint))
    precision = _precision(grad)
    key = ("backward", in_channels, out_channels, group, need_x, need_bias, has_value, has_adjoint, precision)
    if (launches := tiles.launches.get(key)) is None:
        fixed = (
            tiles.node, tiles.target, tiles.ends, tiles.active, tiles.start, tiles.col,
            tiles.node.numel(), tiles.num_tiles, x.size(0), num_relations, group, grad.size(0),
        )  # fmt: skip
        meta = _meta(tiles, num_relations, has_value, precision, in_channels, out_channels, BACKWARD)
        size, numbers = min(TILE_RELATIONS, num_relations), in_channels * out_channels
        width = size * numbers + (out_channels if need_bias else 0)
        parts = _parts(in_channels) * _parts(out_channels)
        num_programs = _num_programs(tiles, x, grad, parts)
        launches = tiles.launches[key] = (
            Launch(
                _backward_kernel, (num_programs, parts), fixed,
                NEED_X=need_x, NEED_BIAS=need_bias, **meta, BIAS_ROWS=_BIAS_ROWS,
            ),
            Launch(
                # without inputs there are no matrices, but a bias
                _total_kernel, (ceil_div(max(numbers, out_channels), _TOTAL_NUMBERS),),
                (num_programs, numbers, width, num_relations - group * TILE_RELATIONS),
                SIZE=size, HAS_ADJOINT=has_adjoint, HAS_BIAS=need_bias, GROUP=TILE_RELATIONS,
                ROWS=_TOTAL_ROWS, BLOCK=_TOTAL_NUMBERS, num_warps=4,
            ),
            (num_programs, width),
        )  # fmt: skip
    products, total, size_of_partial = launches
    further = None if grad_x is None else _further(tiles, grad_x)
    partial = x.new_empty(size_of_partial, dtype=torch.float32)
    products(grad, value, x, weight, grad_x, further, partial)
    if grad_x is not None:
        _add_pieces(tiles, further, grad_x)
    total(partial, adjoint, grad_weight[group * TILE_RELATIONS :] if group else grad_weight, grad_bias)


def _further(tiles: NodeTiles, out: Tensor) -> Tensor | None:
    """For the products, in float32, of those pieces of hubs that are not the first."""
    return out.new_empty(tiles.num_pieces, out.size(1), dtype=torch.float32) if tiles.num_pieces else None


def _add_pieces(tiles: NodeTiles, further: Tensor | None, out: Tensor) -> None:
    if further is not None:
        add_ranges(tiles, further, out)


def _meta(
    tiles: NodeTiles,
    num_relations: int,
    has_value: bool,
    precision: str,
    in_channels: int,
    out_channels: int,
    shapes: dict[int, Shape],
) -> dict[str, object]:
    in_block, out_block = _block(in_channels), _block(out_channels)
    shape = shapes[min(max(in_block, out_block), max(shapes))]
    return {
        "GROUP": min(TILE_RELATIONS, num_relations),
        "ONE_GROUP": num_relations <= TILE_RELATIONS,
        "HAS_PIECES": tiles.num_pieces > 0,
        "HAS_VALUE": has_value,
        "PRECISION": precision,
        "F_IN": in_channels,
        "F_OUT": out_channels,
        "IN": in_block,
        "OUT": out_block,
        "IN_PARTS": _parts(in_channels),
        "OUT_PARTS": _parts(out_channels),
        "ROWS": TILE_ROWS,
        "UNROLL": shape.unroll,
        "num_warps": shape.warps,
        "maxnreg": shape.registers,
    }


def _block(channels: int) -> int:
    """Channels that a program processes at once."""
    return min(64, max(16, power_of_2_from(channels)))


def _parts(channels: int) -> int:
    """Blocks of channels."""
    return max(1, ceil_div(channels, _block(channels)))


def _precision(dense: Tensor) -> str:
    if dense.dtype != torch.float32:  # there is only one way to multiply them
        return "ieee"
    return dot_precision(HIGHEST)


def _num_programs(tiles: NodeTiles, x: Tensor, grad: Tensor, parts: int) -> int:
    if not x.is_cuda:  # the interpreter: a few, so that each has several tiles
        return min(3, tiles.num_tiles)
    block = max(_block(x.size(1)), _block(grad.size(1)))
    multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
    return min(max(1, PROGRAMS[min(block, max(PROGRAMS))] * multiprocessors // parts), tiles.num_tiles)


def forward(x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj) -> Tensor:
    """Sums the neighbours of every node and multiplies the sums, all relations at once; adds a bias."""
    x, weight, tiles = x.contiguous(), weight.contiguous(), node_tiles(adj.incoming, not adj.one_pass)
    bias = None if bias is None else bias.contiguous()
    with device_of(x):
        out = x.new_empty(adj.size[1], weight.size(2))
        value = adj.values(tiles.order, entry_weight, x.dtype)
        sum_and_multiply(tiles, adj.num_relations, value, x, weight, False, out, bias)
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
    need_bias: bool = False,
    adjoint: Tensor | None = None,
) -> Gradients:
    """Gradients of ``x``, ``weight`` (multiplied by ``adjoint``) and a bias from one pass over the reversed edges.

    More than four relations take more passes.
    """
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    tiles = node_tiles(adj.outgoing, not adj.one_pass)
    num_relations, (num_groups, _) = adj.num_relations, tiles.ends.shape
    with device_of(x):
        value = adj.values(tiles.order, entry_weight, grad.dtype)
        grad_x = torch.empty_like(x) if need_x else None
        adds_bias = need_bias and need_weight and tiles.num_tiles > 0
        grad_bias = grad.sum(dim=0) if need_bias and not adds_bias else None
        is_one_part = max(_parts(x.size(1)), _parts(grad.size(1))) == 1
        at_once = need_weight and num_groups == 1 and is_one_part
        if grad_x is not None and not at_once:
            sum_and_multiply(tiles, num_relations, value, grad, weight, True, grad_x)
        if not need_weight:
            return grad_x, None, grad_bias
        if tiles.num_tiles == 0:
            return grad_x, torch.zeros_like(weight), grad_bias
        grad_weight = torch.empty_like(weight)
        grad_bias = grad.new_empty(grad.size(1)) if adds_bias else grad_bias
        for group in range(num_groups):
            weight_gradient(
                tiles, num_relations, value, grad, x, weight, grad_weight, group, grad_x if at_once else None,
                grad_bias if adds_bias and group == 0 else None, adjoint if num_groups == 1 else None,
            )  # fmt: skip
        if adjoint is not None and num_groups > 1:
            grad_weight = mix_rows(adjoint, grad_weight)
    return grad_x, grad_weight, grad_bias
