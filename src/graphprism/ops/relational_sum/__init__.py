"""Messages that the sender has prepared for each relation, summed at the receiver."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_same_device, check_shape
from graphprism.ops.choose import choose
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_sum import csr, reference, scatter
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import read_senders, sum_entries

IMPLEMENTATIONS = {
    "reference": reference.relational_sum,
    "scatter": scatter.relational_sum,
    "csr": csr.relational_sum,
}


def relational_sum(
    h: Tensor, adj: RelationalAdj | TableAdj, weight: Tensor | None = None, *, impl: str | None = None
) -> Tensor:
    r"""Sums over all incoming edges what the sender has prepared for the edge's relation: (N, R, F) -> (N, F).

    .. math:: \mathbf{y}_i = \sum_{e = (j, i)} w_e \, \mathbf{h}_{j, r(e)}

    ``weight`` (K,) replaces the weights of ``adj``, one for each entry, and takes a gradient: attention coefficients,
    for instance. With (K, H) weights and ``h`` (N_src, R, H, F) the heads are summed separately: (N_dst, H, F).

    Shapes: ``h`` (N_src, R, F) -> (N_dst, F)
    """
    if isinstance(adj, TableAdj):
        weight = adj.weights[..., : adj.num_slots].flatten() if weight is None else weight
        return sum_entries(weight[..., None] * read_senders(h, adj), adj)
    if h.dim() == 4:
        heads = range(h.size(2))
        parts = [relational_sum(h[:, :, k], adj, None if weight is None else weight[:, k], impl=impl) for k in heads]
        return torch.stack(parts, dim=1)
    check_shape("h", h, [adj.size[0], adj.num_relations, "F"])
    check_same_device("h", h, "adj", adj.edge_index)
    if weight is not None:
        check_shape("weight", weight, [adj.src.numel()])
    out: Tensor = choose(IMPLEMENTATIONS, impl)(h, adj, adj.weight if weight is None else weight)
    return out
