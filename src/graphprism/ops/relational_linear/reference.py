"""The definition of `relational_linear`, one relation at a time; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


def relational_linear(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """Adds the messages of one relation after another."""
    out = x.new_zeros(adj.size[1], weight.size(2))
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = x[adj.src[chosen]] @ weight[r]
        if adj.weight is not None:
            message = adj.weight[chosen, None].to(x.dtype) * message
        out = out.index_add(0, adj.dst[chosen], message)
    return out
