"""Certify a split: will it keep the nodes apart?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape, check_tensor
from graphprism.analysis.certificate._one_batch import OneBatch, one_batch
from graphprism.analysis.certificate.aggregated_in_degrees import aggregated_in_degrees
from graphprism.analysis.certificate.certificate import Certificate
from graphprism.analysis.certificate.certify_relation import certify_relation, numbers_within_graph
from graphprism.analysis.certificate.direction_groups import DIRECTION_TOLERANCE, direction_groups, first_rows
from graphprism.analysis.certificate.independent_pairs import count_pairs
from graphprism.analysis.certificate.independent_witness import independent_witness
from graphprism.analysis.certificate.structural_rank import structural_rank
from graphprism.splitting import resolve_split


def certify(
    data: object,
    split: Any = None,
    *,
    num_relations: int | None = None,
    edge_weight: Tensor | None = None,
    aggregation: str = "sum",
    tolerance: float = DIRECTION_TOLERANCE,
) -> Certificate:
    """Certifies the relations of a graph, a batch or a dataset.

    Pairs are counted and ranks taken within each graph. A dataset is treated as one batch.

    Args:
        data: A graph (``edge_index`` (2, E) and ``num_nodes``; ``batch`` where it is several), or an iterable of
            graphs.
        split: Split to compute here, whatever `graphprism.splitting.resolve_split` takes, such as ``"degree"``.
            Without it the relations are read from ``data.edge_type``, (E,) long or (E, R) float.
        num_relations: Number of relations, where neither the split nor the shape of the scores says it; else one more
            than the largest one in use.
        edge_weight: Weight of each edge (E,); without it ``data.edge_weight`` where there is one, else 1.
        aggregation: "sum", "mean", "relation_mean" or "sym": see `aggregated_in_degrees`.
        tolerance: See `direction_groups`.

    >>> from graphprism.splitting import Graph
    >>> path = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
    >>> certificate = certify(path, "degree")
    >>> certificate.rank, certificate.independent_pairs, certificate.total_pairs
    (2, 4, 6)
    """
    return certify_batch(
        one_batch(data),
        split,
        num_relations=num_relations,
        edge_weight=edge_weight,
        aggregation=aggregation,
        tolerance=tolerance,
    )


def certify_batch(
    one: OneBatch,
    split: Any,
    *,
    num_relations: int | None,
    edge_weight: Tensor | None,
    aggregation: str,
    tolerance: float,
) -> Certificate:
    """`certify` on graphs that are joined already."""
    edge_type, names = _relations(one, split, num_relations)
    weight = getattr(one.graph, "edge_weight", None) if edge_weight is None else edge_weight
    if weight is not None:
        check_tensor("edge_weight", weight)
        weight = weight.detach().cpu()
        weight = weight.squeeze(1) if weight.dim() == 2 and weight.size(1) == 1 else weight
    in_degrees = aggregated_in_degrees(
        one.edge_index, edge_type, one.num_nodes, len(names), weight, aggregation=aggregation
    )
    relations = tuple(
        certify_relation(name, one.edge_index[:, members], one.num_nodes, one.batch, one.num_graphs)
        for name, members in zip(names, _members(edge_type, len(names)), strict=True)
    )
    sizes: dict[str, Any] = {
        "num_graphs": one.num_graphs,
        "num_nodes": one.num_nodes,
        "num_edges": one.edge_index.size(1),
    }
    figures = _figures(in_degrees, one, tolerance)
    return Certificate(**sizes, **figures, aggregation=aggregation, tolerance=tolerance, relations=relations)


def _relations(one: OneBatch, split: Any, num_relations: int | None) -> tuple[Tensor, tuple[str, ...]]:
    """The relation (E,) or the scores (E, R) of each edge, and the names of the relations."""
    names, edge_type = None, getattr(one.graph, "edge_type", None)
    if split is not None:
        resolved = resolve_split(split)
        edge_type, names = resolved(one.graph), resolved.names
        num_relations = resolved.num_relations if num_relations is None else num_relations
    if edge_type is None:
        raise ValueError("`data` must have an `edge_type`, or `split` must say how to find it, got neither")
    check_tensor("edge_type", edge_type)
    edge_type = edge_type.detach().cpu()
    check_shape("edge_type", edge_type, [one.edge_index.size(1), *["R"] * (edge_type.dim() == 2)])
    if edge_type.dim() == 2:
        num_relations = edge_type.size(1)
    elif num_relations is None:
        num_relations = int(edge_type.max()) + 1 if edge_type.numel() else 1
    if names is None or len(names) != num_relations:
        names = tuple(str(relation) for relation in range(num_relations))
    return edge_type, names


def _members(edge_type: Tensor, num_relations: int) -> Iterator[Tensor]:
    """Marks the edges of each relation: those with a score other than 0, where there are scores."""
    for relation in range(num_relations):
        yield edge_type == relation if edge_type.dim() == 1 else edge_type[:, relation] != 0


def _figures(in_degrees: Tensor, one: OneBatch, tolerance: float) -> dict[str, Any]:
    groups = direction_groups(in_degrees, one.batch, tolerance=tolerance)
    independent, pairs = count_pairs(groups, one.batch, one.num_graphs)
    witness = independent_witness(groups, one.batch)
    ranks = _ranks(in_degrees, groups, one)
    return {
        "rank_counts": tuple(torch.bincount(ranks, minlength=in_degrees.size(1) + 1).tolist()),
        "independent_pairs": int(independent.sum()),
        "total_pairs": int(pairs.sum()),
        "witness": None if witness is None else _numbered(witness, one),
        "witness_graph": None if witness is None else int(one.batch[witness[0]]),
        "witness_in_degrees": None if witness is None else tuple(tuple(in_degrees[node].tolist()) for node in witness),
    }


def _ranks(in_degrees: Tensor, groups: Tensor, one: OneBatch) -> Tensor:
    """Structural rank of each graph, from one row of each direction."""
    nodes = (groups >= 0).nonzero().squeeze(1)
    rows = nodes[torch.from_numpy(first_rows(groups[nodes].numpy()))]
    graphs = one.batch[rows]
    directions = torch.bincount(graphs, minlength=one.num_graphs)
    # Two directions that differ exactly have rank 2, also where they are closer than the tolerance of the rank.
    return structural_rank(in_degrees[rows], graphs, one.num_graphs).maximum(directions.clamp(max=2))


def _numbered(witness: tuple[int, int], one: OneBatch) -> tuple[int, int]:
    first, second = numbers_within_graph(torch.tensor(witness).numpy(), one.batch.numpy())
    return first, second
