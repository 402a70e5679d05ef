"""The definition of `adam_step`, one operation at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def adam_step(
    weight: Tensor, grads: Sequence[Tensor], begins: Sequence[int], first: Tensor, second: Tensor, low: Tensor | None,
    lr: Tensor, decay: Tensor, count: Tensor, clip: float, betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """Changes ``weight``, ``first``, ``second`` and ``low``, piece by piece."""
    lr, decay, count = lr[:, None], decay[:, None], count.to(weight.dtype)
    grads = [grad.to(weight.dtype) for grad in grads]
    if clip:
        norm = torch.linalg.vector_norm(torch.cat(grads, dim=1), dim=1, keepdim=True)
        factor = (clip / (norm + 1e-6)).clamp(max=1.0)
        grads = [grad * factor for grad in grads]
    for begin, grad in zip(begins, grads, strict=True):
        w, m, v = (each[:, begin : begin + grad.size(1)] for each in (weight, first, second))
        if decoupled:
            w.mul_(1 - lr * decay)
        else:
            grad = grad + decay * w
        m.mul_(betas[0]).add_((1 - betas[0]) * grad)
        v.mul_(betas[1]).add_((1 - betas[1]) * grad * grad)
        mean = m / (1 - betas[0] ** count)
        w.sub_(lr * mean / ((v / (1 - betas[1] ** count)).sqrt() + eps))
        if low is not None:
            low[:, begin : begin + grad.size(1)] = w
