"""`adam_step` as two Triton kernels: one computes gradient norms, the other updates everything.

The gradients (pieces) stay in the tensors of autograd: both kernels get all of their addresses, and every program looks
up its own. Concatenating them first would read and write 27 runs of 500k weights once more. A launch per piece would be
slower still: most pieces are biases.

Pieces that are coordinates are cut into chunks of positions: a program reads the gradients of all rows at a position,
transforms them to gradients of the coordinates, and writes the new weights beside the new coordinates. That is one more
number to write per weight, and no further launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, zip_longest
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.batched.step import Coordinates
from graphprism.ops.kernels import ceil_div, power_of_2_from

# Numbers of one piece and one run that a program processes.
_BLOCK = 2048
# Most pieces of one launch: every program searches all of them for its own.
_PIECES = 32


@triton.jit
def _read(
    grads, chunk, run,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, STRIDES: tl.constexpr, FIRST: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A chunk of the gradient (zeros beyond its piece), its offset in a row of weights, and what is left of the piece.

    Sizes are compile-time constants, so that loads can be vectorised.
    """
    g = tl.zeros((BLOCK,), dtype=WIDE)
    begin = chunk * 0
    left = chunk * 0
    for piece in tl.static_range(len(SIZES)):
        if (chunk >= FIRST[piece]) & (chunk < FIRST[piece + 1]):
            skipped = (chunk - FIRST[piece]) * BLOCK
            place = skipped + tl.arange(0, BLOCK)
            address = grads[piece] + run * STRIDES[piece] + place
            g = tl.load(address, mask=place < SIZES[piece], other=0.0).to(WIDE)
            begin = BEGINS[piece] + skipped
            left = SIZES[piece] - skipped
    return g, begin, left


@triton.jit
def _read_held(
    held, chunk, run,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, FIRST: tl.constexpr, MATRIX: tl.constexpr, LENGTHS: tl.constexpr,
    INNER: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A chunk of the gradients of all coordinates (zeros beyond its piece), and its position.

    The position is the offset of the piece in a row of weights, the offsets of the chunk in the first row of
    coordinates, and how many numbers of that row are left. All pieces have one type, so that one variable can hold the
    address of any of them.
    """
    address = held[0]
    begin = chunk * 0
    skipped = chunk * 0
    left = chunk * 0
    for piece in tl.static_range(len(SIZES)):
        if (chunk >= FIRST[piece]) & (chunk < FIRST[piece + 1]):
            address = held[piece] + run * SIZES[piece]
            begin = chunk * 0 + BEGINS[piece]
            skipped = (chunk - FIRST[piece]) * BLOCK
            left = SIZES[piece] // ROWS - skipped
    number = tl.arange(0, BLOCK)
    place = skipped + number
    offset = place // INNER * (ROWS * INNER) + place % INNER
    rows = ()
    for row in tl.static_range(ROWS):
        rows += (tl.load(address + offset + row * INNER, mask=number < left, other=0.0).to(WIDE),)
    gs = ()
    for column in tl.static_range(ROWS):
        g = tl.full((), MATRIX[column], WIDE) * rows[0]
        for row in tl.static_range(1, ROWS):
            g += tl.full((), MATRIX[row * ROWS + column], WIDE) * rows[row]
        gs += (tl.full((), LENGTHS[column], WIDE) * g,)
    return gs, begin, offset, left


@triton.jit
def _squares_kernel(
    grads, held, squares, stride,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, STRIDES: tl.constexpr, FIRST: tl.constexpr, PLAIN: tl.constexpr,
    BLOCK: tl.constexpr,
    HELD_BEGINS: tl.constexpr, HELD_SIZES: tl.constexpr, HELD_FIRST: tl.constexpr, MATRIX: tl.constexpr,
    LENGTHS: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, HELD_BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    chunk, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    target = squares + run * stride + chunk
    if chunk < PLAIN:
        g, _, _ = _read(grads, chunk, run, BEGINS, SIZES, STRIDES, FIRST, WIDE, BLOCK)
        tl.store(target, tl.sum(g * g, axis=0))
    elif len(HELD_SIZES) > 0:
        gs, _, _, _ = _read_held(held, chunk - PLAIN, run, HELD_BEGINS, HELD_SIZES, HELD_FIRST,
                                 MATRIX, LENGTHS, INNER, ROWS, WIDE, HELD_BLOCK)  # fmt: skip
        total = gs[0] * gs[0]
        for row in tl.static_range(1, ROWS):
            total += gs[row] * gs[row]
        tl.store(target, tl.sum(total, axis=0))


@triton.jit
def _update(
    weight, first, second, used, lr, decay, count, squares, chunks, gs, run, place, offset, left,
    CLIP: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPS: tl.constexpr, CHUNKS: tl.constexpr,
    MASKED: tl.constexpr, DECOUPLED: tl.constexpr, HAS_USED: tl.constexpr,
    MATRIX: tl.constexpr, LENGTHS: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    # whole chunks need no mask, which would keep loads from being vectorised
    inside = tl.arange(0, BLOCK) < left if MASKED else None
    place += offset
    # loads are issued before the norm is summed, which hides their latency
    ws, ms, vs = (), (), ()
    for row in tl.static_range(ROWS):
        ws += (tl.load(weight + place + row * INNER, mask=inside),)
        ms += (tl.load(first + place + row * INNER, mask=inside),)
        vs += (tl.load(second + place + row * INNER, mask=inside),)
    rate, shrink = tl.load(lr + run).to(WIDE), tl.load(decay + run).to(WIDE)
    steps = tl.load(count).to(WIDE)
    # compile-time constants: as arguments these numbers would be float32
    beta_1, beta_2, eps = tl.full((), BETA_1, WIDE), tl.full((), BETA_2, WIDE), tl.full((), EPS, WIDE)
    factor = tl.full((), 1.0, WIDE)
    if CLIP > 0:
        # every program adds up the same numbers in the same order
        part = tl.arange(0, CHUNKS)
        norm = tl.sqrt(tl.sum(tl.load(squares + run * chunks + part, mask=part < chunks, other=0.0), axis=0))
        factor = tl.full((), CLIP, WIDE) / (norm + 1e-6)
        factor = tl.where(factor > 1, 1.0, factor)  # a comparison, so that NaN stays NaN
    new = ()
    for row in tl.static_range(ROWS):
        w, m, v, g = ws[row], ms[row], vs[row], gs[row]
        if CLIP > 0:
            g = g * factor
        if DECOUPLED:
            w = w * (1 - rate * shrink)
        else:
            g = g + shrink * w
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g * g
        mean = m / (1 - tl.exp2(steps * tl.log2(beta_1)))
        spread = tl.sqrt(v / (1 - tl.exp2(steps * tl.log2(beta_2)))) + eps
        w = w - rate * mean / spread
        tl.store(weight + place + row * INNER, w, mask=inside)
        tl.store(first + place + row * INNER, m, mask=inside)
        tl.store(second + place + row * INNER, v, mask=inside)
        if ROWS > 1:
            w = tl.full((), LENGTHS[row], WIDE) * w
        new += (w,)
    if HAS_USED:
        for row in tl.static_range(ROWS):
            u = new[0]
            if ROWS > 1:
                u = tl.full((), MATRIX[row * ROWS], WIDE) * u
                for column in tl.static_range(1, ROWS):
                    u += tl.full((), MATRIX[row * ROWS + column], WIDE) * new[column]
            tl.store(used + place + row * INNER, u.to(used.dtype.element_ty), mask=inside)


@triton.jit
def _adam_kernel(
    weight, grads, held, first, second, used, lr, decay, count, squares, chunks, stride,
    CLIP: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPS: tl.constexpr, CHUNKS: tl.constexpr,
    DECOUPLED: tl.constexpr, HAS_USED: tl.constexpr,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, STRIDES: tl.constexpr, FIRST: tl.constexpr, PLAIN: tl.constexpr,
    BLOCK: tl.constexpr,
    HELD_BEGINS: tl.constexpr, HELD_SIZES: tl.constexpr, HELD_FIRST: tl.constexpr, MATRIX: tl.constexpr,
    LENGTHS: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, HELD_BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    chunk, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if chunk < PLAIN:
        g, begin, left = _read(grads, chunk, run, BEGINS, SIZES, STRIDES, FIRST, WIDE, BLOCK)
        place, offset = run * stride + begin, tl.arange(0, BLOCK)
        if left >= BLOCK:
            _update(weight, first, second, used, lr, decay, count, squares, chunks, (g,), run, place, offset, left,
                    CLIP, BETA_1, BETA_2, EPS, CHUNKS, False, DECOUPLED, HAS_USED,
                    (), (), 0, 1, WIDE, BLOCK)  # fmt: skip
        else:
            _update(weight, first, second, used, lr, decay, count, squares, chunks, (g,), run, place, offset, left,
                    CLIP, BETA_1, BETA_2, EPS, CHUNKS, True, DECOUPLED, HAS_USED,
                    (), (), 0, 1, WIDE, BLOCK)  # fmt: skip
    elif len(HELD_SIZES) > 0:
        # other names than above: both sides of a branch must give a name one shape
        gs, piece, places, rest = _read_held(held, chunk - PLAIN, run, HELD_BEGINS, HELD_SIZES, HELD_FIRST,
                                             MATRIX, LENGTHS, INNER, ROWS, WIDE, HELD_BLOCK)  # fmt: skip
        row = run * stride + piece
        if rest >= HELD_BLOCK:
            _update(weight, first, second, used, lr, decay, count, squares, chunks, gs, run, row, places, rest,
                    CLIP, BETA_1, BETA_2, EPS, CHUNKS, False, DECOUPLED, HAS_USED,
                    MATRIX, LENGTHS, INNER, ROWS, WIDE, HELD_BLOCK)  # fmt: skip
        else:
            _update(weight, first, second, used, lr, decay, count, squares, chunks, gs, run, row, places, rest,
                    CLIP, BETA_1, BETA_2, EPS, CHUNKS, True, DECOUPLED, HAS_USED,
                    MATRIX, LENGTHS, INNER, ROWS, WIDE, HELD_BLOCK)  # fmt: skip


class _Pieces(NamedTuple):
    """Pieces of one launch, their offsets in a row of weights, and their first chunks."""

    grads: tuple[Tensor, ...] = ()
    begins: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    first: tuple[int, ...] = (0,)
    coordinates: Coordinates | None = None

    @property
    def rows(self) -> int:
        return 1 if self.coordinates is None else len(self.coordinates.matrix)

    @property
    def block(self) -> int:
        """Positions in a chunk, a power of two; with all rows at least `_BLOCK` numbers."""
        return power_of_2_from(ceil_div(_BLOCK, self.rows))


def adam_step(
    weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], first: Tensor, second: Tensor, used: Tensor | None,
    coordinates: Sequence[Coordinates | None], lr: Tensor, decay: Tensor, count: Tensor, clip: float,
    betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """One program per run and chunk of a piece."""
    # gradients may be rows of a larger tensor; those of coordinates must be contiguous
    places = zip(grads, coordinates, strict=True)
    packed = [g if each is None and (g.stride(1) == 1 or g.size(1) == 1) else g.contiguous() for g, each in places]
    launches = list(_launches(packed, begins, coordinates))
    numbers = [plain.first[-1] + held.first[-1] for plain, held in launches]
    runs, chunks = weight.size(0), sum(numbers)
    squares = weight.new_empty(runs, chunks)
    skipped = [0, *accumulate(numbers)]
    for (plain, held), number, begin in zip(launches, numbers, skipped, strict=False) if clip > 0 else ():
        _squares_kernel[(number, runs)](
            plain.grads or (weight,), held.grads or (weight,), squares[:, begin:], chunks,
            **_constants(weight, plain, held), num_warps=8,
        )  # fmt: skip
    for (plain, held), number in zip(launches, numbers, strict=True):
        _adam_kernel[(number, runs)](
            weight, plain.grads or (weight,), held.grads or (weight,), first, second, used, lr, decay, count,
            squares, chunks, weight.stride(0),
            CLIP=float(clip), BETA_1=betas[0], BETA_2=betas[1], EPS=eps, CHUNKS=power_of_2_from(chunks),
            DECOUPLED=decoupled, HAS_USED=used is not None, **_constants(weight, plain, held), num_warps=8,
        )  # fmt: skip


def _constants(weight: Tensor, plain: _Pieces, held: _Pieces) -> dict[str, Any]:
    """Compile-time constants of the pieces of a launch."""
    return {
        "BEGINS": plain.begins,
        "SIZES": plain.sizes,
        "STRIDES": tuple(grad.stride(0) for grad in plain.grads),
        "FIRST": plain.first,
        "PLAIN": plain.first[-1],
        "BLOCK": plain.block,
        "HELD_BEGINS": held.begins,
        "HELD_SIZES": held.sizes,
        "HELD_FIRST": held.first,
        "MATRIX": () if held.coordinates is None else tuple(chain.from_iterable(held.coordinates.matrix)),
        "LENGTHS": () if held.coordinates is None else held.coordinates.lengths,
        "INNER": 1 if held.coordinates is None else held.coordinates.inner,
        "ROWS": held.rows,
        "HELD_BLOCK": held.block,
        "WIDE": tl.float64 if weight.dtype == torch.float64 else tl.float32,
    }


def _launches(
    grads: Sequence[Tensor], begins: Sequence[int], coordinates: Sequence[Coordinates | None]
) -> Iterator[tuple[_Pieces, _Pieces]]:
    """Groups pieces into launches: weights or coordinates, of one kind and one dtype."""
    kinds: dict[Any, list[int]] = {}
    for number, (grad, each) in enumerate(zip(grads, coordinates, strict=True)):
        kinds.setdefault(None if each is None else (each, grad.dtype), []).append(number)
    parts: dict[bool, list[_Pieces]] = {True: [], False: []}
    for kind, members in kinds.items():
        for i in range(0, len(members), _PIECES):
            chosen = members[i : i + _PIECES]
            pieces = _Pieces(
                tuple(grads[number] for number in chosen),
                tuple(begins[number] for number in chosen),
                tuple(grads[number].size(1) for number in chosen),
                coordinates=coordinates[chosen[0]],
            )
            first = accumulate(ceil_div(size, pieces.rows * pieces.block) for size in pieces.sizes)
            parts[kind is None].append(pieces._replace(first=(0, *first)))
    yield from zip_longest(parts[True], parts[False], fillvalue=_Pieces())
