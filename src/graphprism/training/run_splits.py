"""The splits of a run, fitted to its data: the relations that occur in it, the same in every fold."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, to_undirected

from graphprism.datasets import PackedDataset
from graphprism.nn import MODELS
from graphprism.splitting import Graph, GraphLike, Split, parse_splits
from graphprism.splitting.ranks import factors_of
from graphprism.splitting.split import Only, Product, only
from graphprism.splitting.splits import ByAttribute, ByOrder, BySoftOrder, by_attribute
from graphprism.training.run import Run

# Fitted splits by data set: a split is fitted once, however many networks use it.
_FITTED: WeakKeyDictionary[PackedDataset, dict[tuple[object, ...], tuple[Split, ...]]] = WeakKeyDictionary()


def run_splits(run: Run, dataset: PackedDataset) -> tuple[Split, ...]:
    """The splits of the layers, repeated cyclically if there are more layers; a single one if all layers share it.

    A split by order always has three relations. Of any other split, the relations that occur in any fold of the data
    set are renumbered in their order and the others are left out: bond type 0, which no molecule of ZINC has, costs no
    parameters.

    >>> from graphprism.datasets import molecules
    >>> run_splits(Run(split="degree * attr(edge_attr)"), molecules(50))  # no molecule has bonds of type 0
    (only(by_order('degree') * by_attribute('edge_attr', num_relations=4), [3, 4, 5, 6, 7, 8, 11]),)
    """
    known = _FITTED.setdefault(dataset, {})
    key = run.split, run.undirected, run.self_loops
    if key not in known:
        parsed = [_of_columns(split, dataset) for split in parse_splits(run.split)]
        open_splits = [split for split in parsed if not isinstance(split, ByOrder)]
        with torch.device(dataset.x.device):  # callers count parameters on the meta device
            graph = split_input(run, dataset) if open_splits else None
            known[key] = tuple(split.fitted(graph) if graph and split in open_splits else split for split in parsed)
    return known[key]


def _of_columns(split: Split, dataset: PackedDataset) -> Split:
    """Replaces names of columns of the user's table of edges, as in ``attr(since)``, by columns of ``edge_attr``."""
    if isinstance(split, Only):
        return only(_of_columns(split.split, dataset), split.kept)
    if isinstance(split, Product):
        return _of_columns(split.left, dataset) * _of_columns(split.right, dataset)
    if not isinstance(split, ByAttribute) or split.attribute == "edge_attr":
        return split
    name, columns = split.attribute, [] if dataset.preprocessing is None else dataset.preprocessing["edges"]
    kinds = {each["name"]: each["kind"] for each in columns}
    if kinds.get(name) in ("category", "flag"):
        return by_attribute("edge_attr", split.num_relations, list(kinds).index(name))
    if name in kinds:
        how = f"import the data with --category {name} or categories=({name!r},)"
        raise ValueError(f"the split attr({name}) must name a column of types, got numbers; {how}")
    count = 0 if dataset.edge_attr is None else dataset.edge_attr.size(1)
    there = [f"attr({each})" for each in kinds] or [f"attr(edge_attr, column={number})" for number in range(count)]
    raise ValueError(
        f"the split must name an attribute of edges ({', '.join(there) or 'there is none'}), got attr({name})"
    )


def is_soft(split: Split) -> bool:
    """Whether a split gives scores of relations instead of one relation per edge."""
    inner = split.split if isinstance(split, Only) else split
    return any(isinstance(factor, BySoftOrder) for factor in factors_of(inner))


def relations_of(run: Run, dataset: PackedDataset) -> int | tuple[int, ...]:
    """Number of relations of a run; one for each split if layers have their own."""
    if not MODELS[run.model].relational:
        return 1
    counts = tuple(split.num_relations or 1 for split in run_splits(run, dataset))
    return counts[0] if len(counts) == 1 else counts


def split_input(run: Run, dataset: PackedDataset) -> GraphLike:
    """The graph that a run splits: all graphs as one batch, or the graph of nodes with the edges that the run adds.

    Added loops have their own type in every column of ``edge_attr``. Reversed edges have no type: with them there is no
    ``edge_attr``.
    """
    if dataset.level == "graph":
        whole: GraphLike = dataset.batch(torch.arange(len(dataset)))
        return whole
    edge_index, edge_attr = _with_added(run, dataset)
    return Graph(edge_index, dataset.x.size(0), dataset.x, edge_attr)


def run_edges(run: Run, dataset: PackedDataset) -> Tensor:
    """The edges of a graph of nodes, with the reversed edges and loops that the run adds, (2, E) long."""
    return _with_added(run, dataset)[0]


def _with_added(run: Run, dataset: PackedDataset) -> tuple[Tensor, Tensor | None]:
    num_nodes, edge_index = dataset.x.size(0), dataset.edge_index.long()
    edge_attr = dataset.edge_attr
    if run.undirected:
        edge_index, edge_attr = to_undirected(edge_index, num_nodes=num_nodes), None
    if run.self_loops:
        edge_index, edge_attr = with_loops(edge_index, edge_attr, num_nodes, loop_types(dataset))
    return edge_index, edge_attr


def loop_types(dataset: PackedDataset) -> list[float]:
    """The type of the loops that a run adds, in each column of ``edge_attr``: one that no edge of the data set has.

    It belongs to the data set of training: in a new graph, which may lack the last types, it would be another one.
    """
    if dataset.edge_types or dataset.edge_attr is None:
        return list(dataset.edge_types)
    return [] if not dataset.edge_attr.numel() else (dataset.edge_attr.double().amax(0) + 1).tolist()


def with_loops(
    edge_index: Tensor, edge_attr: Tensor | None, num_nodes: int, types: Sequence[float]
) -> tuple[Tensor, Tensor | None]:
    """Adds a loop of these types to every node that has none.

    >>> with_loops(torch.tensor([[0], [1]]), torch.tensor([[2]]), 2, [5.0])
    (tensor([[0, 0, 1],
            [1, 0, 1]]), tensor([[2],
            [5],
            [5]]))
    """
    if edge_attr is None or not types:
        return add_remaining_self_loops(edge_index, edge_attr, num_nodes=num_nodes)  # type: ignore[no-any-return]
    edge_attr = edge_attr if edge_attr.is_floating_point() else edge_attr.long()  # a byte may not hold one type more
    loop = edge_attr.new_tensor(types)[None]
    return add_remaining_self_loops(edge_index, edge_attr, loop, num_nodes=num_nodes)  # type: ignore[no-any-return]
