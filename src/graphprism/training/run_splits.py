"""The splits of a run, fitted to its data: which relations there are, the same in every fold."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, to_undirected

from graphprism.datasets import PackedDataset
from graphprism.nn import CONVOLUTIONS
from graphprism.splitting import Graph, GraphLike, Split, parse_splits
from graphprism.splitting.ranks import factors_of
from graphprism.splitting.split import Only
from graphprism.splitting.splits import ByOrder, BySoftOrder
from graphprism.training.run import Run

# A split is fitted once for a data set, however many networks are made for it.
_FITTED: WeakKeyDictionary[PackedDataset, dict[tuple[object, ...], tuple[Split, ...]]] = WeakKeyDictionary()


def run_splits(run: Run, dataset: PackedDataset) -> tuple[Split, ...]:
    """One split for each layer, over again where there are more layers; one where all layers share it.

    A split by order has its three relations, used or not. Of any other the relations that occur in the data set, all
    folds together, are numbered in their order, and the others left out: bond type 0, which no molecule of ZINC has,
    costs no parameter.

    >>> from graphprism.datasets import molecules
    >>> run_splits(Run(split="degree * attr(edge_attr)"), molecules(50))  # no molecule has bonds of type 0
    (only(by_order('degree') * by_attribute('edge_attr', num_relations=4), [3, 4, 5, 6, 7, 8, 11]),)
    """
    known = _FITTED.setdefault(dataset, {})
    key = run.split, run.undirected, run.self_loops
    if key not in known:
        parsed = parse_splits(run.split)
        open_splits = [split for split in parsed if not isinstance(split, ByOrder)]
        with torch.device(dataset.x.device):  # callers count parameters on the meta device
            graph = split_input(run, dataset) if open_splits else None
            known[key] = tuple(split.fitted(graph) if graph and split in open_splits else split for split in parsed)
    return known[key]


def is_soft(split: Split) -> bool:
    """Whether a split gives scores, and not one relation for every edge."""
    inner = split.split if isinstance(split, Only) else split
    return any(isinstance(factor, BySoftOrder) for factor in factors_of(inner))


def relations_of(run: Run, dataset: PackedDataset) -> int | tuple[int, ...]:
    """Relations of the graph that the model of a run takes; one number for each split of layers with their own."""
    if not CONVOLUTIONS[run.model].relational:
        return 1
    counts = tuple(split.num_relations or 1 for split in run_splits(run, dataset))
    return counts[0] if len(counts) == 1 else counts


def split_input(run: Run, dataset: PackedDataset) -> GraphLike:
    """What the split of a run is computed of: all graphs as one batch, or the graph of nodes with the run's edges.

    Loops that the run adds have a type of their own in every column of ``edge_attr``. Ways back that it adds have
    none: then there is no ``edge_attr``.
    """
    if dataset.level == "graph":
        whole: GraphLike = dataset.batch(torch.arange(len(dataset)))
        return whole
    edge_index, edge_attr = _with_added(run, dataset)
    return Graph(edge_index, dataset.x.size(0), dataset.x, edge_attr)


def run_edges(run: Run, dataset: PackedDataset) -> Tensor:
    """The edges of a graph of nodes, with ways back and loops where the run wants them, (2, E) long."""
    return _with_added(run, dataset)[0]


def _with_added(run: Run, dataset: PackedDataset) -> tuple[Tensor, Tensor | None]:
    num_nodes, edge_index = dataset.x.size(0), dataset.edge_index.long()
    edge_attr = None if dataset.edge_attr is None else dataset.edge_attr.view(edge_index.size(1), -1)
    if run.undirected:
        edge_index, edge_attr = to_undirected(edge_index, num_nodes=num_nodes), None
    if run.self_loops:
        new_type = None if edge_attr is None or not edge_attr.numel() else edge_attr.amax(0, keepdim=True) + 1
        edge_index, edge_attr = add_remaining_self_loops(edge_index, edge_attr, new_type, num_nodes=num_nodes)
    return edge_index, edge_attr
