"""The definition of rows by type: a gather, and on the way back a product with ones and zeros."""

from __future__ import annotations

import torch
from torch import Tensor


def read_rows(types: Tensor, weight: Tensor) -> Tensor:
    """One gather for all runs."""
    return weight.gather(1, types.long()[..., None].expand(-1, -1, weight.size(2)))


def sum_types(types: Tensor, rows: Tensor, num_types: int) -> Tensor:
    """One product for all runs."""
    every = torch.arange(num_types, device=types.device)
    chosen = (types[:, None] == every[:, None]).to(rows.dtype)  # (K, T, N)
    return torch.bmm(chosen, rows)
