"""`entry_sum` by ``index_add``."""

from __future__ import annotations

from torch import Tensor

from graphprism.ops.index_sum import index_sum
from graphprism.ops.relational_adj import RelationalAdj


def entry_sum(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """Adds every row to its receiver."""
    return index_sum(rows, adj.dst, adj.size[1])
