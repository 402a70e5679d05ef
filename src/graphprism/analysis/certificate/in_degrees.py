"""Weighted in-degrees of each node in each relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism._checks import (
    check_choice,
    check_floating,
    check_integer,
    check_no_nan,
    check_positive,
    check_range,
    check_shape,
    check_tensor,
    check_whole,
)
from graphprism.ops import Coefficients, edge_norm

# Weights of both signs may cancel: a sum below this share of the sum of magnitudes is rounding and set to 0.
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
    target = edge_index[1].long()
    if edge_type.dim() == 1:
        # One sum over pairs (node, relation), whatever the number of relations.
        place, size = target * num_relations + edge_type, num_nodes * num_relations
        return _sums(place, edge_weight, size).view(num_nodes, num_relations)
    weight = 1.0 if edge_weight is None else edge_weight
    columns = [_sums(target, scores.double() * weight, num_nodes) for scores in edge_type.unbind(1)]
    return torch.stack(columns, dim=1) if columns else torch.zeros(num_nodes, 0, dtype=torch.float64)


def check_edges(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> None:
    """Raises unless the tensors describe ``num_relations`` relations on ``num_nodes`` nodes."""
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_whole("num_nodes", num_nodes)
    check_positive("num_relations", num_relations)
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


def _sums(place: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Sum of the weights (1 without them) at each of ``size`` indices; 0 where they cancel up to rounding."""
    if weight is None:
        return torch.bincount(place, minlength=size).double()
    weight = weight.double()
    total = torch.bincount(place, weight, minlength=size).double()  # `bincount` of an empty tensor is integer
    if weight.numel() and float(weight.min()) < 0:
        magnitude = torch.bincount(place, weight.abs(), minlength=size)
        total[total.abs() <= CANCELLATION_TOLERANCE * magnitude] = 0.0
    return total


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
    r"""`weighted_in_degrees` with the edge coefficients of an aggregation, (N, R).

    With :math:`D^{in}_i` and :math:`D^{out}_j` the total weight of edges that end in :math:`i` and that leave :math:`j`
    over all relations, the coefficient of an edge from :math:`j` to :math:`i` of relation :math:`r` is

    - ``"sum"``: :math:`w`,
    - ``"mean"``: :math:`w / D^{in}_i`, one mean over all relations together. It scales the vector of node :math:`i`
      and so has the same pairs and rank as ``"sum"``;
    - ``"relation_mean"``: :math:`w / d^i_r`, a mean within each relation, as in softmax attention per relation. Every
      entry is then 1 or 0: only *which* relations reach a node matters, and on ergodic relations the rank is one;
    - ``"sym"``: :math:`w / \sqrt{D^{in}_i D^{in}_j}`, the normalisation of `MRSGCNConv`, with degrees over all
      relations. On a directed graph the edges of a node :math:`j` without incoming edges get coefficient 0;
    - ``"dir"``: :math:`w / \sqrt{D^{in}_i D^{out}_j}`, the normalisation of `DirConv`, which silences no edge.

    All but ``"sum"`` need weights and scores that are not negative.

    >>> edges, types = torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0])
    >>> aggregated_in_degrees(edges, types, 3, 2, aggregation="mean").tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.5, 0.5]]
    """
    check_choice("aggregation", aggregation, sorted(AGGREGATIONS))
    if aggregation != "sum":
        _check_not_negative("edge_weight", edge_weight, aggregation)
        _check_not_negative("edge_type", edge_type, aggregation)
    return AGGREGATIONS[aggregation](edge_index, edge_type, num_nodes, num_relations, edge_weight)


def coefficient_in_degrees(coefficients: Coefficients, *, merged: bool = False) -> Tensor:
    r"""Row sums of the matrices of a layer, one column per weight matrix: (N, K).

    There is a column for each relation of each part, :math:`\sum_j (\mathbf{A}_{p,r})_{ij} + s_{p,r}`, and a column of
    ones for a root weight, which acts as one more relation. With ``merged`` all relations of a part are one, as in the
    plain layer, which has no scores.

    >>> from graphprism.ops import RelationalAdj
    >>> adj = RelationalAdj(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0]), num_relations=2, num_nodes=3)
    >>> coefficient_in_degrees(Coefficients("a sum", (adj,), root=True)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    columns = [_part(coefficients, number, merged) for number in range(len(coefficients.parts))]
    num_nodes = coefficients.parts[0].size[1] if columns else 0
    return torch.cat([*columns, *[torch.ones(num_nodes, 1, dtype=torch.float64)] * coefficients.root], dim=1)


def _part(coefficients: Coefficients, number: int, merged: bool) -> Tensor:
    part = coefficients.parts[number]
    num_nodes, num_relations = part.size[1], 1 if merged else part.num_relations
    edge_index, weight = part.edge_index.cpu(), part.edge_weight
    weight = None if weight is None else weight.detach().cpu()
    edge_type = None if merged or part.edge_type is None else part.edge_type.detach().cpu()
    if edge_type is None:
        edge_type = torch.zeros(part.num_edges, dtype=torch.long)
    sums = weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, weight)
    if not coefficients.own:
        return sums
    own = coefficients.own[number].cpu()[:num_relations]
    # a negative weight may also cancel the node's own coefficient up to rounding
    magnitude = weighted_in_degrees(
        edge_index,
        edge_type.abs() if edge_type.is_floating_point() else edge_type,
        num_nodes,
        num_relations,
        None if weight is None else weight.abs(),
    )
    total = sums + own
    return torch.where(total.abs() <= CANCELLATION_TOLERANCE * (magnitude + own.abs()), 0.0, total)


def _mean(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> Tensor:
    in_degrees = weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, edge_weight)
    return in_degrees / _positive(_degree(edge_index[1], num_nodes, edge_weight)).unsqueeze(1)


def _relation_mean(
    edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
) -> Tensor:
    return (weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, edge_weight) != 0).double()


def _normalized(kind: str) -> _Figures:
    """In-degrees weighted by the coefficients of an edge norm."""

    def figures(
        edge_index: Tensor, edge_type: Tensor, num_nodes: int, num_relations: int, edge_weight: Tensor | None
    ) -> Tensor:
        coefficient = edge_norm(edge_index.long(), (num_nodes, num_nodes), kind, edge_weight, torch.float64)
        return weighted_in_degrees(edge_index, edge_type, num_nodes, num_relations, coefficient)

    return figures


AGGREGATIONS: dict[str, _Figures] = {
    "sum": weighted_in_degrees,
    "mean": _mean,
    "relation_mean": _relation_mean,
    "sym": _normalized("sym"),
    "dir": _normalized("dir"),
}


def _degree(nodes: Tensor, num_nodes: int, edge_weight: Tensor | None) -> Tensor:
    weight = None if edge_weight is None else edge_weight.double()
    return torch.bincount(nodes.long(), weight, minlength=num_nodes).double()


def _positive(degree: Tensor) -> Tensor:
    """Degrees with 0 replaced by 1; their numerators are 0."""
    return torch.where(degree > 0, degree, 1.0)


def _check_not_negative(name: str, tensor: Tensor | None, aggregation: str) -> None:
    if tensor is not None and tensor.numel() and float(tensor.min()) < 0:
        raise ValueError(
            f"`{name}` must not be negative with aggregation {aggregation!r}, got {float(tensor.min())}; "
            "'sum' takes weights of any sign"
        )


Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Both ends of an edge share one 64-bit key.
LARGEST_NUM_NODES = 1 << 31
_LOW_HALF = (1 << 32) - 1


class Adjacency(NamedTuple):
    """CSR: edges from ``u`` lead to ``target[pointer[u]:pointer[u + 1]]``, in ascending order."""

    pointer: Integers  # (N + 1,)
    target: Integers  # (E,)

    @property
    def num_nodes(self) -> int:
        """Number of nodes N."""
        return self.pointer.size - 1

    @property
    def source(self) -> Integers:
        """The node that each edge leaves, (E,)."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.pointer))


def adjacency(source: Integers, target: Integers, num_nodes: int) -> Adjacency:
    """Sorts edges by source, then target, as packed keys: a third of the time of an argsort and a gather."""
    if num_nodes > LARGEST_NUM_NODES:
        raise ValueError(f"`num_nodes` must be at most {LARGEST_NUM_NODES}, got {num_nodes}")
    key = (source << 32) | target
    key.sort()
    pointer = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=num_nodes), out=pointer[1:])
    key &= _LOW_HALF
    return Adjacency(pointer, key)
