"""The definition of rows by type: a gather, and on the way back a product with ones and zeros."""

from __future__ import annotations

import torch
from torch import Tensor


def read_rows(types: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """One gather for all runs."""
    kind = types.long()
    there = (kind >= 0) & (kind < weight.size(1))
    # one more row, of zeros, for types that are none
    place = torch.where(there, kind, weight.size(1))[..., None].expand(-1, -1, weight.size(2))
    return torch.nn.functional.pad(weight, (0, 0, 0, 1)).gather(1, place).to(dtype or weight.dtype)


def sum_types(types: Tensor, rows: Tensor, num_types: int, dtype: torch.dtype | None = None) -> Tensor:
    """One product for all runs, in the wider of both types."""
    dtype = dtype or rows.dtype
    wide = torch.promote_types(rows.dtype, dtype)
    every = torch.arange(num_types, device=types.device)
    chosen = (types[:, None] == every[:, None]).to(wide)  # (K, T, N)
    return torch.bmm(chosen, rows.to(wide)).to(dtype)
