"""Sums over neighbours, kept apart by relation."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_same_device, check_shape
from graphprism.ops.choose import choose
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate import csr, reference, scatter
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import aggregate

IMPLEMENTATIONS = {
    "reference": reference.relational_aggregate,
    "scatter": scatter.relational_aggregate,
    "csr": csr.relational_aggregate,
}


def relational_aggregate(x: Tensor, adj: RelationalAdj | TableAdj, *, impl: str | None = None) -> Tensor:
    r"""Sums the weighted neighbours of every node, separately per relation: (N, F) -> (N, R, F).

    .. math:: \mathbf{y}_{i, r} = \sum_{e = (j, i),\, r(e) = r} w_e \, \mathbf{x}_j

    Shapes: ``x`` (N_src, F) -> (N_dst, R, F); a leading dimension of ``x`` is carried along.

    Example:
        >>> adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
        >>> relational_aggregate(torch.tensor([[1.0], [10.0], [100.0]]), adj)[2].flatten().tolist()
        [1.0, 10.0]
    """
    if isinstance(adj, TableAdj):
        return aggregate(x, adj)
    if x.dim() == 3:
        return torch.stack([relational_aggregate(signal, adj, impl=impl) for signal in x])
    check_shape("x", x, [adj.size[0], "F"])
    check_same_device("x", x, "adj", adj.edge_index)
    out: Tensor = choose(IMPLEMENTATIONS, impl)(x, adj, adj.weight)
    return out
