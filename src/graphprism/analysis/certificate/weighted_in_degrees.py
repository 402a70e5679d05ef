"""How much weight enters each node in each relation."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_integer, check_no_nan, check_range, check_shape, check_tensor

# Weights of both signs may cancel. What is left below this share of the sum of their magnitudes is rounding, not
# weight.
CANCELLATION_TOLERANCE = 1e-12


def weighted_in_degrees(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None = None
) -> Tensor:
    r"""Sums the weights of the edges that end in each node, separately per relation.

    .. math:: d^i_r = \sum_{e \,:\, e \text{ ends in } i} s_{e,r} \, w_e

    where :math:`w_e` is the weight of edge :math:`e` (1 without ``edge_weight``) and :math:`s_{e,r}` its score in
    relation :math:`r`: 1 in its own relation and 0 elsewhere if ``edge_type`` is a vector, else the entry of
    ``edge_type``. Sums of unit weights are exact. Where weights of both signs cancel up to rounding, the entry is
    exactly 0.

    Shapes: ``edge_index`` (2, E), ``edge_type`` (E,) long or (E, R) float, ``edge_weight`` (E,) -> (N, R) float64

    >>> edges = torch.tensor([[0, 1, 0], [2, 2, 1]])
    >>> weighted_in_degrees(edges, torch.tensor([0, 1, 0]), num_nodes=3, num_relations=2).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    """
    check_edges(edge_index, edge_type, num_nodes, num_relations, edge_weight)
    columns = [
        _relation_sum(edge_index[1].long(), edge_type, relation, num_nodes, edge_weight)
        for relation in range(num_relations)
    ]
    return torch.stack(columns, dim=1) if columns else torch.zeros(num_nodes, 0, dtype=torch.float64)


def check_edges(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> None:
    """Raises unless the tensors describe ``num_relations`` relations on ``num_nodes`` nodes."""
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes)
    check_tensor("edge_type", edge_type)
    num_edges = edge_index.size(1)
    if edge_type.dim() == 2:
        check_shape("edge_type", edge_type, [num_edges, num_relations])
        check_floating("edge_type", edge_type)
        _check_finite("edge_type", edge_type)
    else:
        check_shape("edge_type", edge_type, [num_edges])
        check_integer("edge_type", edge_type)
        check_range("edge_type", edge_type, num_relations)
    if edge_weight is not None:
        check_shape("edge_weight", edge_weight, [num_edges])
        _check_finite("edge_weight", edge_weight)


def _check_finite(name: str, tensor: Tensor) -> None:
    check_no_nan(name, tensor)
    if bool(tensor.isinf().any()):
        raise ValueError(f"`{name}` must hold finite numbers, got infinity")


def _relation_sum(
    target: Tensor, edge_type: Tensor, relation: int, num_nodes: int, edge_weight: Tensor | None
) -> Tensor:
    if edge_type.dim() == 2:
        weight = edge_type[:, relation].double()
        weight = weight if edge_weight is None else weight * edge_weight
    else:
        of_relation = edge_type == relation
        target = target[of_relation]
        if edge_weight is None:
            return torch.bincount(target, minlength=num_nodes).double()
        weight = edge_weight[of_relation].double()
    total = torch.bincount(target, weight, minlength=num_nodes)
    if weight.numel() and float(weight.min()) < 0:
        magnitude = torch.bincount(target, weight.abs(), minlength=num_nodes)
        total[total.abs() <= CANCELLATION_TOLERANCE * magnitude] = 0.0
    return total
