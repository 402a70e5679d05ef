"""The definition of `absolute_loss`, one operation at a time."""

from __future__ import annotations

from torch import Tensor


def absolute_loss(output: Tensor, target: Tensor, share: Tensor, losses: Tensor, turn: Tensor) -> Tensor:
    """The sign of what is wrong is the gradient of its size."""
    gap = output.to(share.dtype) - target
    part = share[..., None] / target.size(-1)
    losses.index_copy_(0, turn, (gap.abs() * part).flatten(1).sum(1)[None])
    return (gap.sign() * part).to(output.dtype)
