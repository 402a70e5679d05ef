"""Messages with one weight matrix per relation, summed at the receiver."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_same_device, check_shape
from graphprism.ops.choose import choose
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_linear import csr, reference, scatter
from graphprism.ops.relational_sum import relational_sum
from graphprism.ops.sparse_transform import sparse_transform
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import linear

IMPLEMENTATIONS = {
    "reference": reference.relational_linear,
    "scatter": scatter.relational_linear,
    "csr": csr.relational_linear,
}


def relational_linear(x: Tensor, adj: RelationalAdj | TableAdj, weight: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Transforms every message by the matrix of its relation and sums over all incoming edges.

    .. math:: \mathbf{y}_i = \sum_{e = (j, i)} w_e \, \mathbf{W}_{r(e)}^\top \mathbf{x}_j

    where :math:`w_e` and :math:`r(e)` are weight and relation of edge :math:`e`; with soft types the edge counts in
    every relation with its score. Gradients flow to ``x``, ``weight``, the edge weights and the scores. Half precisions
    are summed in float32. A leading dimension of ``x`` is carried along (one graph, many signals). ``x`` may be
    a sparse CSR tensor, which counts as a constant.

    Shapes: ``x`` (N_src, F_in), ``weight`` (R, F_in, F_out) -> (N_dst, F_out)

    Example:
        >>> adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
        >>> weight = torch.tensor([[[10.0]], [[100.0]]])
        >>> relational_linear(torch.tensor([[1.0], [2.0], [3.0]]), adj, weight).flatten().tolist()
        [0.0, 0.0, 210.0]
    """
    if x.layout == torch.sparse_csr:  # features of the first layer, which want no gradient
        return relational_sum(sparse_transform(x, weight), adj, impl=impl)
    if isinstance(adj, TableAdj):
        return linear(x, adj, weight)
    if x.dim() == 3:
        return torch.stack([relational_linear(signal, adj, weight, impl=impl) for signal in x])
    check_shape("weight", weight, [adj.num_relations, "F_in", "F_out"])
    check_shape("x", x, [adj.size[0], weight.size(1)])
    check_same_device("x", x, "adj", adj.edge_index)
    run = choose(IMPLEMENTATIONS, impl)
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        out: Tensor = run(x, adj, weight)
        return out
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        mixed: Tensor = run(x.to(dtype), adj, weight.to(dtype))
    return mixed
