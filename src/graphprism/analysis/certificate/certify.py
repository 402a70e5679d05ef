"""Certify a split: which nodes does a layer distinguish on it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphprism._checks import (
    check_homogeneous,
    check_integer,
    check_positive,
    check_range,
    check_shape,
    check_share,
    check_tensor,
)
from graphprism.analysis.certificate.certificate import Certificate, LayerCertificate, RelationCertificate
from graphprism.analysis.certificate.cycles import cycle_among, ergodic_among, nodes_after_peeling
from graphprism.analysis.certificate.directions import (
    DIRECTION_TOLERANCE,
    checked_batch,
    count_pairs,
    direction_groups,
    first_rows,
    independent_witness,
    structural_rank,
)
from graphprism.analysis.certificate.in_degrees import (
    Integers,
    adjacency,
    aggregated_in_degrees,
    check_edges,
    coefficient_in_degrees,
)
from graphprism.ops import Coefficients, RelationalAdj
from graphprism.splitting import Graph, check_split, resolve_split
from graphprism.splitting.check_split import split_names
from graphprism.splitting.graph import edges_of, num_nodes_of

# Most empty relations that are reported; with larger gaps in the numbering, only relations that occur are.
_MOST_UNUSED = 1024


def certify_relation(
    name: str, edge_index: Tensor, num_nodes: int, batch: Tensor, num_graphs: int
) -> RelationCertificate:
    """Certifies the edges of one relation on a batch of graphs, in linear time except for one sort.

    Shapes: ``edge_index`` (2, E) of this relation alone, ``batch`` (N,)
    """
    source, target = edge_index.numpy()
    graph, graph_of_node = adjacency(source, target, num_nodes), batch.numpy()
    remaining = nodes_after_peeling(graph)
    cycle = cycle_among(graph, remaining)
    cyclic = np.unique(graph_of_node[remaining]).size
    # A graph without cycles cannot be ergodic: an acyclic relation, the usual case, needs no further check.
    ergodic = int(ergodic_among(graph, graph_of_node, num_graphs).sum()) if cycle else 0
    entered = np.bincount(target, minlength=num_nodes) > 0
    return RelationCertificate(
        name=name,
        num_edges=int(source.size),
        acyclic=not cycle,
        acyclic_graphs=num_graphs - cyclic,
        cycle=tuple(numbers_within_graph(np.array(cycle, np.int64), graph_of_node)),
        cycle_graph=int(graph_of_node[cycle[0]]) if cycle else None,
        num_roots=int(np.count_nonzero(~entered)),
        num_sources=int(np.count_nonzero(~entered & (np.diff(graph.pointer) > 0))),
        ergodic=ergodic == num_graphs,
        ergodic_graphs=ergodic,
    )


def numbers_within_graph(nodes: Integers, batch: Integers) -> list[int]:
    """Numbers of ``nodes``, all of one graph, within that graph."""
    if nodes.size == 0:
        return []
    numbers: list[int] = (np.cumsum(batch == batch[nodes[0]]) - 1)[nodes].tolist()
    return numbers


class OneBatch(NamedTuple):
    """The input graph, for splits to read, and its edges and batch vector on the CPU."""

    graph: Any
    edge_index: Tensor  # (2, E) long
    num_nodes: int
    batch: Tensor  # (N,) long
    num_graphs: int


def one_batch(data: object) -> OneBatch:
    """Joins the graphs of a dataset into one batch, which avoids loops over graphs."""
    check_homogeneous("data", data)
    if _is_graph(data):
        return _checked(data, None)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            "`data` must be a graph with `edge_index` and `num_nodes`, or a dataset of such graphs, "
            f"got {type(data).__name__}"
        )
    graphs = [graph for item in data for graph in _parts(item)]
    if not graphs:
        raise ValueError("`data` must hold at least one graph, got an empty dataset")
    return _checked(_joined(graphs), len(graphs))


def _is_graph(data: object) -> bool:
    from torch_geometric.data import Dataset

    # `edge_index` of a PyG dataset holds the edges of all graphs, numbered as one.
    return not isinstance(data, Dataset | list | tuple) and hasattr(data, "edge_index")


def _parts(item: Any) -> list[Any]:
    from torch_geometric.data import Batch

    check_homogeneous("data", item)
    if not hasattr(item, "edge_index"):
        raise TypeError(
            f"`data` must hold graphs with `edge_index` and `num_nodes`, got {type(item).__name__} among them"
        )
    return list(item.to_data_list()) if isinstance(item, Batch) else [item]


def _joined(graphs: list[Any]) -> Any:
    from torch_geometric.data import Batch, Data

    if all(isinstance(graph, Data) for graph in graphs):
        return Batch.from_data_list(graphs)
    sizes = torch.tensor([int(graph.num_nodes) for graph in graphs])
    starts = (sizes.cumsum(0) - sizes).tolist()
    return Graph(
        edge_index=torch.cat([graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)], dim=1),
        num_nodes=int(sizes.sum()),
        x=_concatenated([getattr(graph, "x", None) for graph in graphs]),
        edge_attr=_concatenated([getattr(graph, "edge_attr", None) for graph in graphs]),
        batch=torch.repeat_interleave(torch.arange(len(graphs)), sizes),
    )


def _concatenated(tensors: list[Any]) -> Tensor | None:
    return None if any(tensor is None for tensor in tensors) else torch.cat(tensors)


def _checked(graph: Any, num_graphs: int | None) -> OneBatch:
    edge_index = edges_of(graph).cpu()
    num_nodes = num_nodes_of(graph)
    batch, num_graphs = checked_batch(getattr(graph, "batch", None), num_nodes, num_graphs)
    return OneBatch(graph, edge_index, num_nodes, batch, max(num_graphs, 1))


def certify(
    data: object,
    split: Any = None,
    *,
    num_relations: int | None = None,
    edge_weight: Tensor | None = None,
    layer: Any = None,
    aggregation: str | None = None,
    tolerance: float = DIRECTION_TOLERANCE,
) -> Certificate:
    """Certifies the relations of a graph, a batch or a dataset, for a layer or an aggregation.

    Pairs are counted and ranks taken within each graph. A dataset is treated as one batch.

    Args:
        data: A graph (``edge_index`` (2, E) and ``num_nodes``; ``batch`` for several graphs), or an iterable of graphs.
        split: Split to compute, any argument of `graphprism.splitting.resolve_split`, such as ``"degree"``. Without it
            the relations are read from ``data.edge_type``, (E,) long or (E, R) float.
        num_relations: Number of relations, if neither the split nor the shape of the scores defines it; by default one
            more than the largest relation in use.
        edge_weight: Weight of each edge (E,); by default ``data.edge_weight`` if present, else 1.
        layer: The layer to certify, such as ``MRSGCNConv(8, 8, num_relations=3)``, or a function that makes it from the
            number of relations. Its method ``coefficients(adj)`` gives the coefficients of its messages.
        aggregation: Without a layer: "sum" (the default), "mean", "relation_mean", "sym" or "dir": see
            `aggregated_in_degrees`.
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
        layer=layer,
        aggregation=aggregation,
        tolerance=tolerance,
    )


def certify_batch(
    one: OneBatch,
    split: Any,
    *,
    num_relations: int | None,
    edge_weight: Tensor | None,
    layer: Any,
    aggregation: str | None,
    tolerance: float,
    known: list[tuple[Tensor, Certificate]] | None = None,
) -> Certificate:
    """`certify` on one batch.

    ``known`` is a cache of relations with their certificate: splits that agree on every edge share it. All other
    arguments must be the same for all entries of a cache.
    """
    check_share("tolerance", tolerance, below_one=True)
    if layer is not None and aggregation is not None:
        raise ValueError(f"`aggregation` must be None with a `layer`, which has its own, got {aggregation!r}")
    edge_type, names = _relations(one, split, num_relations, layer.num_relations if _is_layer(layer) else None)
    for known_type, known_certificate in known or ():
        same_names = names == tuple(relation.name for relation in known_certificate.relations)
        if same_names and edge_type.dtype == known_type.dtype and torch.equal(edge_type, known_type):
            return known_certificate
    weight = getattr(one.graph, "edge_weight", None) if edge_weight is None else edge_weight
    if weight is not None:
        check_tensor("edge_weight", weight)
        weight = weight.detach().cpu()
        weight = weight.squeeze(1) if weight.dim() == 2 and weight.size(1) == 1 else weight
    found = None
    if layer is None:
        in_degrees = aggregated_in_degrees(
            one.edge_index, edge_type, one.num_nodes, len(names), weight, aggregation=aggregation or "sum"
        )
    else:
        layer = _made(layer, len(names))
        found = _coefficients(layer, one, edge_type, len(names), weight)
        in_degrees = layer_in_degrees(found, one.num_nodes)
    relations = tuple(
        certify_relation(name, one.edge_index[:, members], one.num_nodes, one.batch, one.num_graphs)
        for name, members in zip(names, _members(edge_type, len(names)), strict=True)
    )
    sizes: dict[str, Any] = {
        "num_graphs": one.num_graphs,
        "num_nodes": one.num_nodes,
        "num_edges": one.edge_index.size(1),
    }
    channels = None if found is None else found.channels
    certificate = Certificate(
        **sizes,
        **_figures(in_degrees, one, tolerance, channels),
        aggregation="layer" if found else aggregation or "sum",
        tolerance=tolerance,
        relations=relations,
        layer=None if found is None else _layer_certificate(layer, found, one, edge_type, weight, tolerance),
    )
    if known is not None:
        known.append((edge_type, certificate))
    return certificate


def _is_layer(layer: Any) -> bool:
    return hasattr(layer, "coefficients") and hasattr(layer, "num_relations")


def _made(layer: Any, num_relations: int) -> Any:
    """The layer itself, or the one that a function makes for that number of relations."""
    # a layer of another package is callable, too, but has no `coefficients`
    if not _is_layer(layer) and not isinstance(layer, torch.nn.Module) and callable(layer):
        layer = layer(num_relations)
    if not _is_layer(layer):
        raise TypeError(
            "`layer` must be a layer with `coefficients`, as those of graphprism.nn, or a function that makes one from "
            f"the number of relations, got {type(layer).__name__}"
        )
    if layer.num_relations != num_relations:
        raise ValueError(
            f"`layer` must have {num_relations} relations as the split has, got one with {layer.num_relations}"
        )
    return layer


def _coefficients(
    layer: Any, one: OneBatch, edge_type: Tensor, num_relations: int, weight: Tensor | None
) -> Coefficients:
    check_edges(one.edge_index, edge_type, one.num_nodes, num_relations, weight)
    adj = RelationalAdj(
        one.edge_index,
        edge_type if edge_type.dim() == 1 else edge_type.double(),
        None if weight is None else weight.double(),
        num_relations=num_relations,
        num_nodes=one.num_nodes,
    )
    found = layer.coefficients(adj)
    if not isinstance(found, Coefficients):
        raise TypeError(f"`layer.coefficients` must return graphprism.ops.Coefficients, got {type(found).__name__}")
    return found


def layer_in_degrees(coefficients: Coefficients, num_nodes: int) -> Tensor:
    """`coefficient_in_degrees`; no columns, hence rank 0, if nothing is proven."""
    if coefficients.unproven is not None:
        return torch.zeros(num_nodes, 0, dtype=torch.float64)
    return coefficient_in_degrees(coefficients)


def _layer_certificate(
    layer: Any, found: Coefficients, one: OneBatch, edge_type: Tensor, weight: Tensor | None, tolerance: float
) -> LayerCertificate:
    proven = found.unproven is None
    merged = None
    if proven and edge_type.dim() == 1:
        rows = coefficient_in_degrees(found, merged=True)
        groups = _groups(rows, one, tolerance, found.channels)
        merged = int(count_pairs(groups, one.batch, one.num_graphs)[0].sum())
    num_edges = one.edge_index.size(1)
    silenced = found.silenced().cpu() if proven else torch.zeros(num_edges, dtype=torch.bool)
    weighs = torch.ones(num_edges, dtype=torch.bool) if weight is None else weight != 0
    # a converted layer has ours inside
    layers = layer.modules() if isinstance(layer, torch.nn.Module) else (layer,)
    if proven and any(getattr(each, "add_self_loops", False) for each in layers):
        # self-loops are replaced by new ones after the edges
        is_kept = one.edge_index[0] != one.edge_index[1]
        silenced = torch.zeros(num_edges, dtype=torch.bool).masked_scatter(is_kept, silenced)
    return LayerCertificate(
        name=found.layer,
        norm=found.norm,
        channels=found.channels,
        silenced_edges=int((silenced & weighs).sum()),
        merged_pairs=merged,
        is_linear=found.is_linear,
        shared_start=_shares_start(layer),
        notes=found.notes,
        unproven=found.unproven,
    )


def _shares_start(layer: Any) -> bool:
    """Whether the relations of a layer, or of a submodule, start with the same weights; False for one relation."""
    parts = layer.modules() if isinstance(layer, torch.nn.Module) else [layer]
    shared = any(getattr(part, "start", None) == "shared" for part in parts)
    return shared and layer.num_relations > 1


def _relations(
    one: OneBatch, split: Any, num_relations: int | None, default: int | None
) -> tuple[Tensor, tuple[str, ...]]:
    """The relation (E,) or the scores (E, R) of each edge, and the names of the relations.

    There are ``default`` relations if neither the argument nor the split defines their number.
    """
    if num_relations is not None:
        check_positive("num_relations", num_relations)
    names, edge_type = None, getattr(one.graph, "edge_type", None)
    if split is not None:
        resolved = resolve_split(split)
        edge_type, names = resolved(one.graph), resolved.names
        num_relations = resolved.num_relations if num_relations is None else num_relations
    elif getattr(one.graph, "split_rule", None) is not None:
        check_split(one.graph)
    if edge_type is None:
        raise ValueError("`data` must have an `edge_type`, or `split` must be given, got neither")
    check_tensor("edge_type", edge_type)
    edge_type = edge_type.detach().cpu()
    check_shape("edge_type", edge_type, [one.edge_index.size(1), *["R"] * (edge_type.dim() == 2)])
    if edge_type.dim() == 2:
        num_relations = edge_type.size(1)
    else:
        num_relations = default if num_relations is None else num_relations
        check_integer("edge_type", edge_type)
        check_range("edge_type", edge_type, num_relations)
        if num_relations is None:
            num_relations = int(edge_type.max()) + 1 if edge_type.numel() else 1
        if num_relations > max(_MOST_UNUSED, edge_type.numel()):
            occurring, edge_type = torch.unique(edge_type, return_inverse=True)
            return edge_type, tuple(str(relation) for relation in occurring.tolist())
    if split is None:
        names = split_names(one.graph, num_relations)
    if names is None or len(names) != num_relations:
        names = tuple(str(relation) for relation in range(num_relations))
    return edge_type, names


def _members(edge_type: Tensor, num_relations: int) -> Iterator[Tensor]:
    """Masks of the edges of each relation; for scores, those with a score other than 0."""
    for relation in range(num_relations):
        yield edge_type == relation if edge_type.dim() == 1 else edge_type[:, relation] != 0


def _groups(in_degrees: Tensor, one: OneBatch, tolerance: float, channels: int | None) -> Tensor:
    groups = direction_groups(in_degrees, one.batch, tolerance=tolerance)
    # all rows of one channel are parallel
    return torch.where(groups >= 0, one.batch, groups) if channels == 1 else groups


def _figures(in_degrees: Tensor, one: OneBatch, tolerance: float, channels: int | None) -> dict[str, Any]:
    groups = _groups(in_degrees, one, tolerance, channels)
    independent, pairs = count_pairs(groups, one.batch, one.num_graphs)
    witness = independent_witness(groups, one.batch)
    ranks = graph_ranks(in_degrees, groups, one)
    ranks = ranks if channels is None else ranks.clamp(max=channels)
    return {
        "rank_counts": tuple(torch.bincount(ranks, minlength=in_degrees.size(1) + 1).tolist()),
        "independent_pairs": int(independent.sum()),
        "total_pairs": int(pairs.sum()),
        "witness": None if witness is None else _numbered(witness, one),
        "witness_graph": None if witness is None else int(one.batch[witness[0]]),
        "witness_in_degrees": None if witness is None else tuple(tuple(in_degrees[node].tolist()) for node in witness),
    }


def graph_ranks(in_degrees: Tensor, groups: Tensor, one: OneBatch) -> Tensor:
    """Structural rank of each graph, from one row of each direction."""
    nodes = (groups >= 0).nonzero().squeeze(1)
    rows = nodes[torch.from_numpy(first_rows(groups[nodes].numpy()))]
    graphs = one.batch[rows]
    directions = torch.bincount(graphs, minlength=one.num_graphs)
    # Two directions that differ exactly have rank 2, even if they are closer than the tolerance of the rank.
    return structural_rank(in_degrees[rows], graphs, one.num_graphs).maximum(directions.clamp(max=2))


def _numbered(witness: tuple[int, int], one: OneBatch) -> tuple[int, int]:
    first, second = numbers_within_graph(torch.tensor(witness).numpy(), one.batch.numpy())
    return first, second
