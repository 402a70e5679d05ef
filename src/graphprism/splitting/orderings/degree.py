"""Order by degree."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike, edges_of, num_nodes_of

_KINDS = ("out", "in", "total")


def degree(graph: GraphLike, kind: str = "out") -> Tensor:
    """Number of edges that leave each node (``out``), enter it (``in``), or both together (``total``).

    Repeated edges count each time, and a loop counts once in each direction. Shapes: (N,) long

    >>> from graphprism.splitting import Graph
    >>> degree(Graph(torch.tensor([[0, 0, 1], [1, 2, 2]]), num_nodes=3)).tolist()
    [2, 1, 0]
    """
    if kind not in _KINDS:
        raise ValueError(f"`kind` must be one of {list(_KINDS)}, got {kind!r}")
    edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
    if kind == "total":
        leaving, entering = (torch.bincount(end, minlength=num_nodes) for end in edge_index)
        return leaving + entering
    return torch.bincount(edge_index[_KINDS.index(kind)], minlength=num_nodes)
