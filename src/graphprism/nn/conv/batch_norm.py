"""Batch normalisation over the rows that count."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_norm(module: torch.nn.BatchNorm1d, x: Tensor, counts: Tensor | None = None) -> Tensor:
    """``module(x)`` with statistics of the rows where ``counts`` is not zero; all rows are normalised.

    Statistics are in float32 at least. Where no row counts, the running ones stay as they are; nothing is asked of the
    device.

    Shapes: ``x`` (N, F), ``counts`` (N,) -> (N, F)
    """
    if counts is None:
        out: Tensor = module(x)
        return out
    wide = x if x.dtype == torch.float64 else x.float()
    mean, variance = module.running_mean, module.running_var
    if module.training or mean is None or variance is None:
        mean, variance = _measure(module, wide, (counts != 0).to(wide.dtype)[:, None])
    out = (wide - mean) * (variance + module.eps).rsqrt()
    return (out * module.weight + module.bias if module.affine else out).to(x.dtype)


def _measure(module: torch.nn.BatchNorm1d, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the chosen rows, of which running statistics take note."""
    number = chosen.sum()
    mean = (chosen * x).sum(dim=0) / number.clamp(min=1)
    square = (chosen * (x - mean).square()).sum(dim=0)
    _update(module, mean.detach(), (square / (number - 1).clamp(min=1)).detach(), number != 0)
    return mean, square / number.clamp(min=1)


def _update(module: torch.nn.BatchNorm1d, mean: Tensor, variance: Tensor, any_row: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(any_row)
    share = 1 / module.num_batches_tracked.clamp(min=1) if module.momentum is None else module.momentum
    share = share * any_row
    module.running_mean.mul_(1 - share).add_(share * mean)
    module.running_var.mul_(1 - share).add_(share * variance)
