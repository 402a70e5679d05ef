"""`adam_step` as one Triton kernel: every number is read once and written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _kernel(
    weight, grad, first, second, lr, decay, count, norm, size, stride, grad_stride, clip, beta_1, beta_2, eps,
    CLIPS: tl.constexpr, DECOUPLED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    g = tl.load(grad + run * grad_stride + place, mask=inside, other=0.0).to(WIDE)
    place = run * stride + place
    rate, shrink = tl.load(lr + run).to(WIDE), tl.load(decay + run).to(WIDE)
    steps = tl.load(count).to(WIDE)
    w = tl.load(weight + place, mask=inside, other=0.0)
    if CLIPS:
        factor = clip / (tl.load(norm + run).to(WIDE) + 1e-6)
        g = g * tl.where(factor > 1, 1.0, factor)  # a comparison, so that NaN stays NaN
    m = tl.load(first + place, mask=inside, other=0.0)
    v = tl.load(second + place, mask=inside, other=0.0)
    if DECOUPLED:
        w = w * (1 - rate * shrink)
    else:
        g = g + shrink * w
    m = beta_1 * m + (1 - beta_1) * g
    v = beta_2 * v + (1 - beta_2) * g * g
    mean = m / (1 - tl.exp2(steps * tl.log2(beta_1 + tl.zeros_like(steps))))
    spread = tl.sqrt(v / (1 - tl.exp2(steps * tl.log2(beta_2 + tl.zeros_like(steps))))) + eps
    tl.store(weight + place, w - rate * mean / spread, mask=inside)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)


def adam_step(
    weight: Tensor, grad: Tensor, first: Tensor, second: Tensor, lr: Tensor, decay: Tensor, count: Tensor,
    norm: Tensor, clip: float, betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """One program for a thousand numbers of one run."""
    runs, size = weight.shape
    _kernel[(triton.cdiv(size, _BLOCK), runs)](
        weight, grad, first, second, lr, decay, count, norm, size, weight.stride(0), grad.stride(0),
        clip, betas[0], betas[1], eps, CLIPS=clip > 0, DECOUPLED=decoupled,
        WIDE=tl.float64 if weight.dtype == torch.float64 else tl.float32,
        BLOCK=_BLOCK, num_warps=4,
    )  # fmt: skip
