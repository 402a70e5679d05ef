"""A sum of matrix products, in float32 at least."""

from __future__ import annotations

import torch
from torch import Tensor


def wide_zeros(x: Tensor, *size: int) -> Tensor:
    """Zeros to add products of ``x`` to: in float32 at least, as bfloat16 would lose what later blocks add."""
    return x.new_zeros(size, dtype=torch.promote_types(x.dtype, torch.float32))


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds ``left @ right`` to ``total``, which may be of a wider type."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
