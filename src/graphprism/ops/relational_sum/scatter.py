"""`relational_sum` by gather and ``index_add``."""

from __future__ import annotations

from torch import Tensor

from graphprism.ops.index_sum import index_sum
from graphprism.ops.relational_adj import RelationalAdj


def relational_sum(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Reads the row of every pair (sender, relation) and adds it up at the receiver."""
    message = h.flatten(0, 1).index_select(0, adj.pair_src)
    if weight is not None:
        message = weight[:, None].to(h.dtype) * message
    return index_sum(message, adj.dst, adj.size[1])
