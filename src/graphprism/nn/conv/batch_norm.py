"""Batch normalisation over the rows that count."""

from __future__ import annotations

import torch
from torch import Tensor


def batch_norm(module: torch.nn.BatchNorm1d, x: Tensor, counts: Tensor | None = None) -> Tensor:
    """``module(x)`` with statistics of the rows where ``counts`` is not zero; all rows are normalised.

    Shapes: ``x`` (N, F), ``counts`` (N,) -> (N, F)
    """
    if counts is None or not module.training:
        out: Tensor = module(x)
        return out
    chosen = (counts != 0).to(x.dtype)[:, None]
    number = chosen.sum()
    mean = (chosen * x).sum(dim=0) / number
    variance = (chosen * (x - mean).square()).sum(dim=0) / number
    _update(module, mean.detach(), (variance * number / (number - 1)).detach())
    out = (x - mean) * (variance + module.eps).rsqrt()
    return out * module.weight + module.bias if module.affine else out


def _update(module: torch.nn.BatchNorm1d, mean: Tensor, variance: Tensor) -> None:
    if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
        return
    module.num_batches_tracked.add_(1)
    share = 1 / module.num_batches_tracked if module.momentum is None else module.momentum
    module.running_mean.mul_(1 - share).add_(share * mean)
    module.running_var.mul_(1 - share).add_(share * variance)
