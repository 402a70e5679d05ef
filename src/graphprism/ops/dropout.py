"""Dropout with an explicit generator."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Sets a share of the numbers, in [0, 1), to zero and scales the others, so that their mean stays.

    No number is drawn where the share is 0.

    >>> sorted(set(dropout(torch.ones(50, 2), 0.5).flatten().tolist()))
    [0.0, 2.0]
    """
    return x * keep_mask(x, share, generator) / (1 - share) if share else x


def keep_mask(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Boolean mask of the shape of ``x``: true where `dropout` keeps the number."""
    return torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - share, generator=generator)
