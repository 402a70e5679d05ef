"""The definition of `csr_sum`, one row at a time; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor


def csr_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """Sums ``value[k] * dense[col[k]]`` over the entries ``k`` of every row."""
    rows = []
    for begin, end in zip(rowptr[:-1].tolist(), rowptr[1:].tolist(), strict=True):
        entries = dense[col[begin:end].long()]
        if value is not None:
            entries = value[begin:end, None] * entries
        rows.append(entries.sum(dim=0))
    return torch.stack(rows) if rows else dense.new_zeros(0, dense.size(1))
