"""`take_row` as one Triton kernel: copying a few kilobytes takes less time than a launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div

# Numbers of one tensor that a program copies.
_BLOCK = 1024


@triton.jit
def _kernel(
    sources, targets, number,
    SIZES: tl.constexpr, WIDTHS: tl.constexpr, STRIDES: tl.constexpr, ROWS: tl.constexpr, FIRST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    chunk = tl.program_id(0)
    row = tl.load(number)
    for part in tl.static_range(len(SIZES)):
        if (chunk >= FIRST[part]) & (chunk < FIRST[part + 1]):
            place = (chunk - FIRST[part]) * BLOCK + tl.arange(0, BLOCK)
            inside = place < SIZES[part]
            line, column = place // WIDTHS[part], place % WIDTHS[part]
            source = sources[part] + row * ROWS[part] + line.to(tl.int64) * STRIDES[part] + column
            tl.store(targets[part] + place, tl.load(source, mask=inside), mask=inside)


def take_row(tensors: Sequence[Tensor], number: Tensor) -> list[Tensor]:
    """Launches one program per thousand numbers of each tensor."""
    made = [torch.empty(tensor.shape[1:], dtype=tensor.dtype, device=tensor.device) for tensor in tensors]
    lines = [_lines(tensor) for tensor in tensors]
    sizes = tuple(each.numel() for each in made)
    first = (0, *accumulate(ceil_div(size, _BLOCK) for size in sizes))
    _kernel[(first[-1],)](
        tuple(_plain(tensor) for tensor in tensors), tuple(_plain(each) for each in made), number,
        SIZES=sizes, WIDTHS=tuple(width for width, _ in lines), STRIDES=tuple(stride for _, stride in lines),
        ROWS=tuple(tensor.stride(0) for tensor in tensors), FIRST=first, BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
    return made


def _plain(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if tensor.dtype == torch.bool else tensor


def _lines(tensor: Tensor) -> tuple[int, int]:
    """A row as evenly spaced contiguous lines: length of a line, and stride between lines."""
    lines = [(size, stride) for size, stride in zip(tensor.shape[1:], tensor.stride()[1:], strict=True) if size != 1]
    width = 1
    while lines and lines[-1][1] == width:
        width *= lines.pop()[0]
    if not lines:
        return width, width
    stride = distance = lines[-1][1]
    for size, found in reversed(lines):
        if found != distance:
            raise ValueError(f"a row must be lines of one distance, got strides {tensor.stride()} of {tensor.shape}")
        distance *= size
    return width, stride
