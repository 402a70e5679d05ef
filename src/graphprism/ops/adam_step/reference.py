"""The definition of `adam_step`, one operation at a time."""

from __future__ import annotations

from torch import Tensor


def adam_step(
    weight: Tensor, grad: Tensor, first: Tensor, second: Tensor, lr: Tensor, decay: Tensor, count: Tensor,
    norm: Tensor, clip: float, betas: tuple[float, float], eps: float, decoupled: bool,
) -> None:  # fmt: skip
    """Changes ``weight``, ``first`` and ``second``."""
    lr, decay, grad = lr[:, None], decay[:, None], grad.to(weight.dtype)
    if clip:
        grad = grad * (clip / (norm + 1e-6)).clamp(max=1.0)[:, None]
    if decoupled:
        weight.mul_(1 - lr * decay)
    else:
        grad = grad + decay * weight
    first.mul_(betas[0]).add_((1 - betas[0]) * grad)
    second.mul_(betas[1]).add_((1 - betas[1]) * grad * grad)
    mean = first / (1 - betas[0] ** count)
    size = (second / (1 - betas[1] ** count)).sqrt() + eps
    weight.sub_(lr * mean / size)
