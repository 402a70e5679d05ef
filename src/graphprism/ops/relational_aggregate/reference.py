"""The definition of `relational_aggregate`, one relation at a time; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


def relational_aggregate(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Stacks the sums of one relation after another."""
    out = []
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = x[adj.src[chosen]]
        if weight is not None:
            message = weight[chosen, None].to(x.dtype) * message
        out.append(x.new_zeros(adj.size[1], x.size(1)).index_add(0, adj.dst[chosen], message))
    return torch.stack(out, dim=1)
