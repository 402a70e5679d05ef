"""`relational_linear` by gather and ``index_add``: the form that `torch.compile` and `torch.func` can transform."""

from __future__ import annotations

from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate import scatter as relational_aggregate
from graphprism.ops.relational_linear.cost import transform_first
from graphprism.ops.relational_sum import scatter as relational_sum
from graphprism.ops.relational_transform import relational_transform


def relational_linear(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """Transforms, then sums; or sums, then transforms."""
    in_channels, out_channels = weight.shape[1:]
    if transform_first(adj, adj.src.numel(), in_channels, out_channels):
        return relational_sum.relational_sum(relational_transform(x, weight), adj, adj.weight)
    h = relational_aggregate.relational_aggregate(x, adj, adj.weight)
    return h.flatten(1) @ weight.flatten(0, 1)
