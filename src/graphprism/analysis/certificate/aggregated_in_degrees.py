"""Weighted in-degrees under the aggregations in use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphprism.analysis.certificate.weighted_in_degrees import weighted_in_degrees

_Figures = Callable[[Tensor, Tensor, int, int, "Tensor | None"], Tensor]


def aggregated_in_degrees(
    edge_index: Tensor,
    edge_type: Tensor,
    num_nodes: int,
    num_relations: int,
    edge_weight: Tensor | None = None,
    *,
    aggregation: str = "sum",
) -> Tensor:
    r"""`weighted_in_degrees` of the weights that an aggregation makes of :math:`w`, (N, R).

    With :math:`D^{in}_i` and :math:`D^{out}_j` the weight of all edges that end in :math:`i` and that leave :math:`j`,
    whatever their relation, an edge from :math:`j` to :math:`i` of relation :math:`r` weighs

    - ``"sum"``: :math:`w`,
    - ``"mean"``: :math:`w / D^{in}_i`, one mean over all relations together. It scales the vector of node :math:`i`
      and so changes neither the pairs nor the rank that ``"sum"`` gives;
    - ``"relation_mean"``: :math:`w / d^i_r`, a mean within each relation, as softmax attention per relation takes.
      Every entry is then 1 or 0: only *which* relations reach a node counts, and on ergodic relations nothing is left;
    - ``"sym"``: :math:`w / \sqrt{D^{in}_i D^{out}_j}`, the normalisation of the graph before it is split.

    All but ``"sum"`` need weights and scores that are not negative.

    >>> edges, types = torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0])
    >>> aggregated_in_degrees(edges, types, 3, 2, aggregation="mean").tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]
    """
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"`aggregation` must be one of {sorted(AGGREGATIONS)}, got {aggregation!r}")
    if aggregation != "sum":
        _check_not_negative("edge_weight", edge_weight, aggregation)
        _check_not_negative("edge_type", edge_type, aggregation)
    return AGGREGATIONS[aggregation](edge_index, edge_type, num_nodes, num_relations, edge_weight)


def _mean(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> Tensor:
    in_degrees = weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, edge_weight)
    return in_degrees / _positive(_degree(edge_index[1], num_nodes, edge_weight)).unsqueeze(1)


def _relation_mean(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> Tensor:
    return (weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, edge_weight) != 0).double()


def _sym(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> Tensor:
    leaving = _positive(_degree(edge_index[0], num_nodes, edge_weight)).rsqrt()
    weight = leaving[edge_index[0]] if edge_weight is None else leaving[edge_index[0]] * edge_weight
    in_degrees = weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, weight)
    return in_degrees * _positive(_degree(edge_index[1], num_nodes, edge_weight)).rsqrt().unsqueeze(1)


AGGREGATIONS: dict[str, _Figures] = {
    "sum": weighted_in_degrees,
    "mean": _mean,
    "relation_mean": _relation_mean,
    "sym": _sym,
}


def _degree(nodes: Tensor, num_nodes: int, edge_weight: Tensor | None) -> Tensor:
    weight = None if edge_weight is None else edge_weight.double()
    return torch.bincount(nodes.long(), weight, minlength=num_nodes).double()


def _positive(degree: Tensor) -> Tensor:
    """Degrees with 1 in place of 0: what they would divide is 0 as well."""
    return torch.where(degree > 0, degree, 1.0)


def _check_not_negative(name: str, tensor: Tensor | None, aggregation: str) -> None:
    if tensor is not None and tensor.numel() and float(tensor.min()) < 0:
        raise ValueError(
            f"`{name}` must not be negative with aggregation {aggregation!r}, got {float(tensor.min())}; "
            "'sum' takes weights of any sign"
        )
