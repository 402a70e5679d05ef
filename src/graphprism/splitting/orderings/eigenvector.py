"""Order by eigenvector centrality."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_positive
from graphprism.splitting.graph import GraphLike, edges_of, incoming_sum, num_nodes_of
from graphprism.splitting.parts import parts_of


def eigenvector(graph: GraphLike, steps: int = 100) -> Tensor:
    r"""Eigenvector centrality, by a fixed number of steps of the power method.

    .. math:: \mathbf{w} = (\mathbf{A} + \mathbf{I}) \mathbf{v}, \qquad \mathbf{v} \leftarrow \mathbf{w} / \max_i w_i

    from :math:`\mathbf{v} = \mathbf{1}`, where :math:`A_{ij}` counts the edges from :math:`j` to :math:`i` and the
    maximum is taken within each graph of a batch. The identity lets it converge on bipartite graphs as well.
    Shapes: (N,) float64 in [0, 1]
    """
    check_positive("steps", steps)
    edge_index, parts = edges_of(graph), parts_of(graph)
    # No term is negative, so nothing cancels and the relative error of every entry stays at rounding.
    value = torch.ones(num_nodes_of(graph), dtype=torch.float64, device=edge_index.device)
    for _ in range(steps):
        value = value + incoming_sum(value, edge_index)
        value = value / parts.maximum(value)
    return value
