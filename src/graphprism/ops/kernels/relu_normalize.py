"""`relu_normalize` as two Triton kernels: a program holds whole rows and reads and writes every number once."""

from __future__ import annotations

from functools import reduce

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, power_of_2_from

# Numbers of each tensor that one program holds.
_TILE = 2048
_WORD = 32  # channels whose comparisons are packed into one number


@triton.jit
def _forward_kernel(
    x, second, bias, kept, largest, out, larger, length, is_larger, num_rows, channels, num_words,
    HAS_SECOND: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_KEPT: tl.constexpr, HAS_LARGEST: tl.constexpr,
    KEEP: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    wanted = there[:, None] & inside[None, :]
    place = row[:, None] * channels + channel[None, :]
    total = tl.load(x + place, mask=wanted, other=0.0).to(SUM)
    if HAS_SECOND:
        total += tl.load(second + place, mask=wanted, other=0.0).to(SUM)
    if HAS_BIAS:
        total += tl.load(bias + channel, mask=inside, other=0.0).to(SUM)[None, :]
    if HAS_KEPT:
        total = total * tl.load(kept + place, mask=wanted, other=0).to(SUM)
    # comparisons, so that NaN stays NaN
    total = tl.where(total < 0, 0.0, total)
    norm = tl.sqrt(tl.sum(total * total, axis=1))
    total = total / tl.where(norm < 1e-12, 1e-12, norm)[:, None]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=wanted)
    if KEEP:
        tl.store(length + row, norm.to(length.dtype.element_ty), mask=there)
    if HAS_LARGEST:
        before = tl.load(largest + place, mask=wanted, other=0.0).to(SUM)
        # what is compared is what is kept, also where that has fewer digits
        total = total.to(out.dtype.element_ty).to(SUM)
        grows = total > before
        found = tl.where(grows | (total != total), total, before)
        tl.store(larger + place, found.to(larger.dtype.element_ty), mask=wanted)
        if KEEP:
            bits = tl.reshape((grows & wanted).to(tl.int32), (ROWS, WORDS, BLOCK // WORDS))
            packed = tl.sum(bits << tl.arange(0, BLOCK // WORDS)[None, None, :], axis=2)
            word = tl.arange(0, WORDS)[None, :]
            tl.store(is_larger + row[:, None] * num_words + word, packed, mask=there[:, None] & (word < num_words))


@triton.jit
def _backward_kernel(
    grad, grad_larger, out, length, is_larger, grad_x, grad_bias, grad_largest, num_rows, channels, num_words,
    HAS_GRAD: tl.constexpr, HAS_LARGER: tl.constexpr, NEED_BIAS: tl.constexpr, NEED_LARGEST: tl.constexpr,
    SUM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, WORD: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    wanted = there[:, None] & inside[None, :]
    place = row[:, None] * channels + channel[None, :]
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    if HAS_GRAD:
        total += tl.load(grad + place, mask=wanted, other=0.0).to(SUM)
    if HAS_LARGER:
        word = tl.load(is_larger + row[:, None] * num_words + (channel // WORD)[None, :], mask=wanted, other=0)
        grows = ((word >> (channel % WORD)[None, :]) & 1) != 0
        of_larger = tl.load(grad_larger + place, mask=wanted, other=0.0).to(SUM)
        total += tl.where(grows, of_larger, 0.0)
        if NEED_LARGEST:
            rest = tl.where(grows, 0.0, of_larger)
            tl.store(grad_largest + place, rest.to(grad_largest.dtype.element_ty), mask=wanted)
    y = tl.load(out + place, mask=wanted, other=0.0).to(SUM)
    norm = tl.load(length + row, mask=there, other=1.0).to(SUM)
    # a length that is not divided by has no gradient
    along = tl.where(norm < 1e-12, 0.0, tl.sum(total * y, axis=1))
    total = (total - y * along[:, None]) / tl.where(norm < 1e-12, 1e-12, norm)[:, None]
    # a number that was dropped is zero as well; NaN goes on
    total = tl.where(y <= 0, 0.0, total)
    tl.store(grad_x + place, total.to(grad_x.dtype.element_ty), mask=wanted)
    if NEED_BIAS:  # one row for each program, to be added up in a fixed order
        part = tl.sum(tl.where(wanted, total, 0.0), axis=0)
        tl.store(grad_bias + tl.program_id(0).to(tl.int64) * channels + channel, part, mask=inside)


def forward(
    x: Tensor,
    second: Tensor | None,
    bias: Tensor | None,
    kept: Tensor | None,
    largest: Tensor | None,
    *,
    keep: bool,
    overwrite: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Rows, elementwise maxima and, for the backward pass, norms and bit-packed comparisons."""
    dtypes = [each.dtype for each in (x, second, bias) if each is not None]
    out = x if overwrite else x.new_empty(x.shape, dtype=reduce(torch.promote_types, dtypes))
    wider = None if largest is None else torch.promote_types(out.dtype, largest.dtype)
    larger = None if largest is None else x.new_empty(x.shape, dtype=wider)
    length = out.new_empty(*x.shape[:-1], 1) if keep else None
    words = ceil_div(x.size(-1), _WORD)
    compares = keep and largest is not None
    is_larger = out.new_empty(*x.shape[:-1], words, dtype=torch.int32) if compares else None
    tensors = [x, second, bias, None if kept is None else kept.contiguous().view(torch.uint8), largest]
    _launch(
        _forward_kernel, out, *tensors, out, larger, length, is_larger,
        HAS_SECOND=second is not None, HAS_BIAS=bias is not None, HAS_KEPT=kept is not None,
        HAS_LARGEST=largest is not None, KEEP=keep, WORDS=max(1, _width(out) // _WORD),
    )  # fmt: skip
    return out, larger, length, is_larger


def backward(
    grad: Tensor | None,
    grad_larger: Tensor | None,
    out: Tensor,
    length: Tensor,
    is_larger: Tensor | None,
    dtype: torch.dtype,
    need_bias: bool,
    need_largest: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the summed rows, of the bias and of the largest states before."""
    grad_x = torch.empty_like(out, dtype=dtype)
    parts = out.new_empty(_programs(out), out.size(-1), dtype=_wide(out)) if need_bias else None
    grad_largest = torch.empty_like(out, dtype=grad_larger.dtype) if need_largest else None
    _launch(
        _backward_kernel, out, grad, grad_larger, out, length, is_larger, grad_x, parts, grad_largest,
        HAS_GRAD=grad is not None, HAS_LARGER=grad_larger is not None, NEED_BIAS=need_bias,
        NEED_LARGEST=need_largest, WORD=_WORD,
    )  # fmt: skip
    return grad_x, None if parts is None else parts.sum(dim=0), grad_largest


def _launch(kernel: triton.JITFunction, out: Tensor, *tensors: Tensor | None, **switches: bool | int) -> None:
    """Launches a kernel on all rows of ``out``; output tensors are contiguous."""
    if out.is_cuda and out.device.index != torch.cuda.current_device():  # Triton launches on the current device
        with torch.cuda.device(out.device):
            return _launch(kernel, out, *tensors, **switches)
    if out.numel() > 0:
        channels = out.size(-1)
        kernel[(_programs(out),)](
            *(None if each is None else each.contiguous() for each in tensors),
            out.numel() // channels, channels, ceil_div(channels, _WORD), **switches,
            SUM=tl.float64 if out.dtype == torch.float64 else tl.float32, ROWS=_rows(out), BLOCK=_width(out),
            num_warps=4,
        )  # fmt: skip
    return None


def _width(out: Tensor) -> int:
    return power_of_2_from(out.size(-1))


def _rows(out: Tensor) -> int:
    return max(1, _TILE // _width(out))


def _programs(out: Tensor) -> int:
    return ceil_div(out.numel() // max(1, out.size(-1)), _rows(out))


def _wide(out: Tensor) -> torch.dtype:
    return torch.promote_types(out.dtype, torch.float32)
