"""`absolute_loss` as one Triton kernel, instead of ten whose launch takes longer than their work."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import power_of_2_from

_BLOCK = 1024


@triton.jit
def _kernel(
    output, target, share, losses, turn, grad, size, stride,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for first in range(0, size, BLOCK):
        number = first + tl.arange(0, BLOCK)
        inside = number < size
        place = run * size + number
        said = tl.load(output + place, mask=inside, other=0.0).to(WIDE)
        gap = said - tl.load(target + place, mask=inside, other=0.0).to(WIDE)
        part = tl.load(share + place // WIDTH, mask=inside, other=0.0).to(WIDE) / WIDTH
        total += tl.where(inside, tl.abs(gap) * part, 0.0)
        sign = tl.where(gap > 0, part, tl.where(gap < 0, -part, 0.0))
        tl.store(grad + place, sign.to(grad.dtype.element_ty), mask=inside)
    tl.store(losses + tl.load(turn) * stride + run, tl.sum(total, axis=0))


def absolute_loss(output: Tensor, target: Tensor, share: Tensor, losses: Tensor, turn: Tensor) -> Tensor:
    """Launches one program per run."""
    output, target, share = output.contiguous(), target.contiguous(), share.contiguous()
    num_runs, num_graphs, width = output.shape
    size, grad = num_graphs * width, torch.empty_like(output)
    _kernel[(num_runs,)](
        output, target, share, losses, turn, grad, size, losses.stride(0), WIDTH=width,
        WIDE=tl.float64 if share.dtype == torch.float64 else tl.float32,
        BLOCK=min(_BLOCK, power_of_2_from(size)), num_warps=4,
    )  # fmt: skip
    return grad
