"""Dropout that a generator of one's own decides."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Sets a share of the numbers, in [0, 1), to zero and scales the others, so that their mean stays.

    >>> sorted(set(dropout(torch.ones(50, 2), 0.5).flatten().tolist()))
    [0.0, 2.0]
    """
    return x * what_stays(x, share, generator) / (1 - share)


def what_stays(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Booleans of the shape of ``x``: what `dropout` does not set to zero."""
    return torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - share, generator=generator)
