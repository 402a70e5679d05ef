"""Order by features."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.splitting.graph import GraphLike, attribute_of, num_nodes_of


def features(graph: GraphLike) -> Tensor:
    """Sum of the raw features of each node: in float64, or in int64 (and so exact) for integer features.

    Shapes: ``graph.x`` (N, F) or (N,) -> (N,)
    """
    x = attribute_of(graph, "x", "the features of the nodes")
    if x.is_complex():
        raise TypeError(f"`x` must hold real numbers, got {x.dtype}")
    num_nodes = num_nodes_of(graph)
    if x.dim() == 1:
        x = x.unsqueeze(1)
    check_shape("x", x, [num_nodes, "F"])
    return x.detach().sum(dim=1, dtype=torch.float64 if x.is_floating_point() else torch.int64)
