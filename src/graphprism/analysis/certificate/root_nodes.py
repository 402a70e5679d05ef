"""Nodes that a relation does not enter."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape


def root_nodes(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Marks the nodes without incoming edges, those without any edge among them.

    Two acyclic relations that are not empty and whose roots differ always leave structurally independent nodes,
    whatever the weights, as long as the weights that enter a node do not cancel.

    Shapes: ``edge_index`` (2, E) -> (N,) bool

    >>> root_nodes(torch.tensor([[0, 0], [1, 2]]), num_nodes=4).tolist()
    [True, False, False, True]
    """
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes)
    return torch.bincount(edge_index[1].long(), minlength=num_nodes) == 0
