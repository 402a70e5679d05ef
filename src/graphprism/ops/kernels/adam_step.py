"""`adam_step` as two Triton kernels: one reads the gradients for their norms, one changes everything else.

The pieces of the gradient stay where autograd left them: both kernels take all of their addresses and every program
finds the one it works for. Gathered in one tensor first, 27 runs of 500k weights were read and written once more. A
launch for each piece would be slower still: most pieces are biases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

# Numbers of one piece and one run that a program takes.
_BLOCK = 2048
# Pieces of one launch at most: every program asks for each of them whether it is the one.
_PIECES = 32


@triton.jit
def _read(
    grads, chunk, run,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, FIRST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A chunk of the gradient, zeros beyond its piece; where it begins in a row of weights; what is left of the piece.

    The sizes are known to the compiler, which reads several numbers at once where they allow it.
    """
    g = tl.zeros((BLOCK,), dtype=WIDE)
    begin = chunk * 0
    left = chunk * 0
    for piece in tl.static_range(len(SIZES)):
        if (chunk >= FIRST[piece]) & (chunk < FIRST[piece + 1]):
            skipped = (chunk - FIRST[piece]) * BLOCK
            place = skipped + tl.arange(0, BLOCK)
            address = grads[piece] + run * SIZES[piece] + place
            g = tl.load(address, mask=place < SIZES[piece], other=0.0).to(WIDE)
            begin = BEGINS[piece] + skipped
            left = SIZES[piece] - skipped
    return g, begin, left


@triton.jit
def _squares_kernel(
    grads, squares, stride,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, FIRST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    chunk, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    g, _, _ = _read(grads, chunk, run, BEGINS, SIZES, FIRST, WIDE, BLOCK)
    tl.store(squares + run * stride + chunk, tl.sum(g * g, axis=0))


@triton.jit
def _update(
    weight, first, second, low, lr, decay, count, squares, chunks, g, run, place, left,
    CLIP: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPS: tl.constexpr, CHUNKS: tl.constexpr,
    MASKED: tl.constexpr, DECOUPLED: tl.constexpr, HAS_LOW: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    number = tl.arange(0, BLOCK)
    # whole chunks do without a mask, which would have their numbers read one by one
    inside = number < left if MASKED else None
    place += number
    # all is on its way before the norm is added up
    w = tl.load(weight + place, mask=inside)
    m = tl.load(first + place, mask=inside)
    v = tl.load(second + place, mask=inside)
    rate, shrink = tl.load(lr + run).to(WIDE), tl.load(decay + run).to(WIDE)
    steps = tl.load(count).to(WIDE)
    # known to the compiler, which would take numbers of a call for float32
    beta_1, beta_2, eps = tl.full((), BETA_1, WIDE), tl.full((), BETA_2, WIDE), tl.full((), EPS, WIDE)
    if CLIP > 0:
        # every program adds up the same numbers in the same order
        part = tl.arange(0, CHUNKS)
        norm = tl.sqrt(tl.sum(tl.load(squares + run * chunks + part, mask=part < chunks, other=0.0), axis=0))
        factor = tl.full((), CLIP, WIDE) / (norm + 1e-6)
        g = g * tl.where(factor > 1, 1.0, factor)  # a comparison, so that NaN stays NaN
    if DECOUPLED:
        w = w * (1 - rate * shrink)
    else:
        g = g + shrink * w
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g * g
    mean = m / (1 - tl.exp2(steps * tl.log2(beta_1)))
    spread = tl.sqrt(v / (1 - tl.exp2(steps * tl.log2(beta_2)))) + eps
    w = w - rate * mean / spread
    tl.store(weight + place, w, mask=inside)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    if HAS_LOW:
        tl.store(low + place, w.to(low.dtype.element_ty), mask=inside)


@triton.jit
def _adam_kernel(
    weight, grads, first, second, low, lr, decay, count, squares, chunks, stride,
    CLIP: tl.constexpr, BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPS: tl.constexpr,
    BEGINS: tl.constexpr, SIZES: tl.constexpr, FIRST: tl.constexpr, CHUNKS: tl.constexpr,
    DECOUPLED: tl.constexpr, HAS_LOW: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    g, begin, left = _read(grads, tl.program_id(0), run, BEGINS, SIZES, FIRST, WIDE, BLOCK)
    place = run * stride + begin
    if left >= BLOCK:
        _update(weight, first, second, low, lr, decay, count, squares, chunks, g, run, place, left,
                CLIP, BETA_1, BETA_2, EPS, CHUNKS, False, DECOUPLED, HAS_LOW, WIDE, BLOCK)  # fmt: skip
    else:
        _update(weight, first, second, low, lr, decay, count, squares, chunks, g, run, place, left,
                CLIP, BETA_1, BETA_2, EPS, CHUNKS, True, DECOUPLED, HAS_LOW, WIDE, BLOCK)  # fmt: skip


class _Launch(NamedTuple):
    """Pieces that are taken together, where they stand in a row of weights, and their chunks among all."""

    grads: tuple[Tensor, ...]
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    first: tuple[int, ...]
    skipped: int


def adam_step(
    weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], first: Tensor, second: Tensor, low: Tensor | None,
    lr: Tensor, decay: Tensor, count: Tensor, clip: float, betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """One program for a chunk of one piece of one run."""
    launches = list(_launches([grad.contiguous() for grad in grads], begins))
    runs, chunks = weight.size(0), launches[-1].skipped + launches[-1].first[-1]
    wide = tl.float64 if weight.dtype == torch.float64 else tl.float32
    squares = weight.new_empty(runs, chunks)
    for launch in launches if clip > 0 else ():
        _squares_kernel[(launch.first[-1], runs)](
            launch.grads, squares[:, launch.skipped :], chunks,
            BEGINS=launch.begins, SIZES=launch.sizes, FIRST=launch.first, WIDE=wide, BLOCK=_BLOCK, num_warps=8,
        )  # fmt: skip
    for launch in launches:
        _adam_kernel[(launch.first[-1], runs)](
            weight, launch.grads, first, second, low, lr, decay, count, squares, chunks, weight.stride(0),
            CLIP=float(clip), BETA_1=betas[0], BETA_2=betas[1], EPS=eps,
            BEGINS=launch.begins, SIZES=launch.sizes, FIRST=launch.first,
            CHUNKS=triton.next_power_of_2(chunks), DECOUPLED=decoupled, HAS_LOW=low is not None,
            WIDE=wide, BLOCK=_BLOCK, num_warps=8,
        )  # fmt: skip


def _launches(grads: Sequence[Tensor], begins: Sequence[int]) -> Iterator[_Launch]:
    skipped = 0
    for number in range(0, len(grads), _PIECES):
        chosen = slice(number, number + _PIECES)
        sizes = tuple(grad.size(1) for grad in grads[chosen])
        first = (0, *accumulate(triton.cdiv(size, _BLOCK) for size in sizes))
        yield _Launch(tuple(grads[chosen]), tuple(begins[chosen]), sizes, first, skipped)
        skipped += first[-1]
