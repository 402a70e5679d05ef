"""The definition of `entry_sum`, one node at a time; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


def entry_sum(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """Adds up the rows of every receiver."""
    sums = [rows[adj.dst == node].sum(dim=0) for node in range(adj.size[1])]
    return torch.stack(sums) if sums else rows[:0]
