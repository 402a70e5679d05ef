"""The order of the data in an epoch."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def epoch_order(seed: int, epoch: int, n: int) -> Tensor:
    """A permutation of 0..n-1 that follows from ``seed`` and ``epoch`` alone, on the CPU.

    No random state is read or changed, so that a resumed run, and another engine, sees the same order.

    >>> epoch_order(0, 0, 5).tolist() == epoch_order(0, 0, 5).tolist()
    True
    """
    generator = torch.Generator().manual_seed(mixed_seed("order", seed, epoch))
    return torch.randperm(n, generator=generator)


def mixed_seed(*words: str | int) -> int:
    """A seed of 63 bits out of words and numbers: neighbours have nothing in common.

    >>> mixed_seed("order", 0, 1) == mixed_seed("order", 1, 0)
    False
    """
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little") >> 1
