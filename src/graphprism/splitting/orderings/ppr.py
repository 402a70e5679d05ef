"""Order by personalised PageRank."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_positive
from graphprism.splitting.graph import GraphLike, edges_of, incoming_sum, num_nodes_of


def ppr(graph: GraphLike, steps: int = 15, restart: float = 0.1) -> Tensor:
    r"""Personalised PageRank with every node as a seed, by a fixed number of steps.

    .. math:: \mathbf{r} \leftarrow (1 - \alpha) \hat{\mathbf{A}} \mathbf{r} + \alpha \mathbf{1}, \qquad
        \hat{A}_{ij} = \frac{A_{ij}}{\sqrt{d_i d_j}}

    from :math:`\mathbf{r} = \mathbf{1}`, where :math:`\alpha` is ``restart``, :math:`A_{ij}` counts the edges from
    :math:`j` to :math:`i`, with exactly one loop at every node, and :math:`d_i = \sum_j A_{ij}`. Shapes: (N,) float64
    """
    check_positive("steps", steps)
    if not 0 <= restart <= 1:
        raise ValueError(f"`restart` must be in [0, 1], got {restart}")
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    loop = edge_index[0] == edge_index[1]
    if bool(loop.any()):
        edge_index = edge_index[:, ~loop]
    scale = (torch.bincount(edge_index[1], minlength=num_nodes) + 1).double().rsqrt()
    rank = torch.ones_like(scale)
    for _ in range(steps):
        sent = scale * rank
        rank = (1 - restart) * scale * (incoming_sum(sent, edge_index) + sent) + restart
    return rank
