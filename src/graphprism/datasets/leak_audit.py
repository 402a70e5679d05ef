"""How much of a test score is there to be had by looking up nodes that are in the training set as well."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphprism._checks import check_type
from graphprism.datasets.packed_dataset import PackedDataset

Array = npt.NDArray[Any]


class LeakAudit(NamedTuple):
    """Shares of the test nodes, between 0 and 1.

    Attributes:
        lookup: Right with the commonest class of the training nodes that have the same out-neighbours, and with the
            commonest class of all training nodes where there is none.
        majority: Right with the commonest class of all training nodes.
        matched: That share a set of out-neighbours with a training node.
    """

    lookup: float
    majority: float
    matched: float


def leak_audit(
    dataset: PackedDataset, split_column: int = 0, *, undirected: bool = False, self_loops: bool = False
) -> LeakAudit:
    """Scores two guesses without parameters on the test nodes of one split: by neighbours, and the commonest class.

    Duplicated nodes leak their labels from training to test: a lookup that beats the majority by far says that a model
    can score without having learnt anything that carries over to other graphs. Edges that are there twice count once.
    A node without out-neighbours matches none. Of classes that are equally common the smallest number is taken.

    The edges are those that a model sees: ``undirected`` and ``self_loops`` are those of its run.

    Args:
        dataset: One graph with a class per node.
        split_column: Column of the masks.
        undirected: Whether every edge also goes back.
        self_loops: Whether every node has an edge to itself. What all nodes have is no sign of one, so that loops are
            then left out, those of the set as well.

    Raises:
        ValueError: It is not such a set, or has no such split.
    """
    train, test = _masks(dataset, split_column)
    y = dataset.y.cpu().numpy().astype(np.int64)
    group = _same_out_neighbours(_seen_edges(dataset, undirected, self_loops), len(y))
    majority = int(np.bincount(y[train]).argmax())
    guess = np.full(len(y) + 1, -1)  # a class per group; -1 for one without training nodes, and at the end for no group
    copied = train & (group >= 0)
    groups, classes = _commonest(group[copied], y[copied], dataset.num_outputs)
    guess[groups] = classes
    found = guess[group[test]]
    right = np.where(found < 0, majority, found) == y[test]
    return LeakAudit(float(right.mean()), float((y[test] == majority).mean()), float((found >= 0).mean()))


def _seen_edges(dataset: PackedDataset, undirected: bool, self_loops: bool) -> Array:
    edge_index: Array = dataset.edge_index.cpu().numpy()
    if undirected:
        edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)  # twice the same edge counts once
    return edge_index[:, edge_index[0] != edge_index[1]] if self_loops else edge_index


def _same_out_neighbours(edge_index: Array, num_nodes: int) -> Array:
    """Numbers the sets of distinct out-neighbours: edges (2, E) -> (N,), equal where the sets are; -1 if empty."""
    degree, target = _distinct(edge_index, num_nodes)
    first = np.cumsum(degree) - degree
    group, count = np.full(num_nodes, -1), 0
    order = np.argsort(degree, kind="stable")
    sizes, starts = np.unique(degree[order], return_index=True)
    for size, nodes in zip(sizes, np.split(order, starts[1:]), strict=True):
        if size > 0:
            # Sets of one size are the rows of a matrix; rows that are equal lie together once they are sorted.
            rows = target[first[nodes, None] + np.arange(size)]
            alike = np.lexsort(rows.T)
            new = (rows[alike[1:]] != rows[alike[:-1]]).any(1)
            group[nodes[alike]] = count + np.concatenate([[0], np.cumsum(new)])
            count += 1 + int(new.sum())
    return group


def _distinct(edge_index: Array, num_nodes: int) -> tuple[Array, Array]:
    """How many distinct out-neighbours each node has, and all of them in ascending order, node after node."""
    edges = np.sort(edge_index[0].astype(np.int64) * num_nodes + edge_index[1])
    # np.unique does not sort but hashes, which takes 22 s instead of 1 s for 14 million edges.
    source, target = np.divmod(edges[np.diff(edges, prepend=-1) != 0], num_nodes)
    return np.bincount(source, minlength=num_nodes), target


def _masks(dataset: PackedDataset, column: int) -> tuple[Array, Array]:
    check_type("dataset", dataset, PackedDataset, "a PackedDataset")
    if dataset.level != "node" or dataset.task != "multiclass" or len(dataset) != 1:
        raise ValueError(f"`dataset` must be one graph with a class per node, got {dataset!r}")
    if dataset.train_mask is None or dataset.test_mask is None:
        raise ValueError(f"`dataset` must have masks for training and test, {dataset.name} has none")
    count = dataset.train_mask.size(1)
    if isinstance(column, bool) or not isinstance(column, int):
        raise TypeError(f"`split_column` must be a whole number, got {column!r}")
    if not 0 <= column < count:
        raise ValueError(f"`split_column` must be in [0, {count}), got {column}")
    return dataset.train_mask[:, column].cpu().numpy(), dataset.test_mask[:, column].cpu().numpy()


def _commonest(group: Array, y: Array, classes: int) -> tuple[Array, Array]:
    """The groups that occur, each once, and the commonest class in each."""
    pairs, counts = np.unique(group * classes + y, return_counts=True)
    order = np.lexsort((-counts, pairs // classes))
    groups, first = np.unique(pairs[order] // classes, return_index=True)
    return groups, pairs[order][first] % classes
