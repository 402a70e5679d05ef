"""`relational_aggregate` by gather and ``index_add``."""

from __future__ import annotations

from torch import Tensor

from graphprism.ops.index_sum import index_sum
from graphprism.ops.relational_adj import RelationalAdj


def relational_aggregate(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Reads the row of every sender and adds it up at the pair (receiver, relation)."""
    message = x.index_select(0, adj.src)
    if weight is not None:
        message = weight[:, None].to(x.dtype) * message
    total = index_sum(message, adj.pair_dst, adj.size[1] * adj.num_relations)
    return total.view(adj.size[1], adj.num_relations, x.size(1))
