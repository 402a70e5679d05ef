"""The definition of `relational_sum`, one relation at a time; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


def relational_sum(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Adds the messages of one relation after another."""
    out = h.new_zeros(adj.size[1], h.size(2))
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = h[adj.src[chosen], r]
        if weight is not None:
            message = weight[chosen, None].to(h.dtype) * message
        out = out.index_add(0, adj.dst[chosen], message)
    return out
