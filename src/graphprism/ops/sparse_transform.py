"""What every node would send in every relation, from features that are mostly zeros."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate import relational_aggregate


def sparse_transform(x: Tensor, weight: Tensor) -> Tensor:
    r"""`relational_transform` of a sparse CSR tensor, which counts as a constant: gradients flow to ``weight`` alone.

    A matrix of features is a graph from features to nodes, so that the product and its gradient are sums over sorted
    neighbours, too. Measured on one core, a whole epoch of six layers of 128 channels: 60 against 165 ms on Chameleon
    (2,325 features, 0.6 % of them set).

    Shapes: ``x`` (N, F_in) in CSR, ``weight`` (R, F_in, F_out) -> (N, R, F_out)
    """
    num_relations, in_channels, out_channels = weight.shape
    flat = weight.transpose(0, 1).reshape(in_channels, num_relations * out_channels)
    return relational_aggregate(flat, _graph_of(x)).view(x.size(0), num_relations, out_channels)


def _graph_of(x: Tensor) -> RelationalAdj:
    """Features as senders, nodes as receivers; sorted once and kept with the tensor."""
    found: RelationalAdj | None = getattr(x, "graphprism_graph", None)
    if found is None:
        node = torch.arange(x.size(0), device=x.device).repeat_interleave(x.crow_indices().diff())
        edges = torch.stack([x.col_indices().long(), node])
        found = RelationalAdj(edges, edge_weight=x.values(), num_nodes=(x.size(1), x.size(0))).prepare()
        x.graphprism_graph = found  # type: ignore[attr-defined]
    return found
