"""Dropout with an explicit generator."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Sets a random share, in [0, 1), of the elements to zero and scales the others to keep the mean.

    With a share of 0 no random number is drawn.

    >>> sorted(set(dropout(torch.ones(50, 2), 0.5).flatten().tolist()))
    [0.0, 2.0]
    """
    return x * keep_mask(x, share, generator) / (1 - share) if share else x


def keep_mask(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Boolean mask of the shape of ``x``: true where `dropout` keeps the element."""
    return torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - share, generator=generator)
