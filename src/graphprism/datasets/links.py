"""Folds of edges for link prediction, with negative pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism.datasets.folds import SHARES, TRAIN, check_shares

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class LinkFolds:
    """Edges of one graph, divided into folds.

    Attributes:
        kept: (E,) mask of training edges, including self-loops.
        pairs: (2, P) edges of all folds, and as many negative pairs for validation and test.
        y: (P, 1) whether a pair is an edge.
        split: (P,) fold of each pair.
    """

    kept: Array
    pairs: Array
    y: Array
    split: Array


def divide_links(
    edge_index: Array, num_nodes: int, directed: bool, shares: Sequence[float] = SHARES, seed: int = 0
) -> LinkFolds:
    """Divides edges into folds; both directions of an undirected edge are in the same fold.

    Raises:
        ValueError: There are too few edges, or too few negative pairs.

    >>> folds = divide_links(np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), 9, False, (0.4, 0.3, 0.3))
    >>> int(folds.kept.sum()), folds.split.tolist(), folds.y.astype(int).T.tolist()
    (2, [0, 1, 2, 1, 2], [[1, 1, 1, 0, 0]])
    """
    check_shares(shares)
    generator = np.random.default_rng(seed)
    keys = pair_keys(edge_index, num_nodes, directed)
    loops = edge_index[0] == edge_index[1]
    links = np.unique(keys[~loops])
    if links.size < 3:
        raise ValueError(f"the graph must have at least 3 edges that are no loops, to divide them, got {links.size}")
    links = generator.permutation(links)
    held = np.maximum(1, np.floor(np.array(shares[1:]) * links.size + 0.5)).astype(np.int64)
    bounds = np.cumsum([links.size - held.sum(), held[0]])
    folds = np.searchsorted(bounds, np.arange(links.size), "right")
    negative = non_edges(np.sort(keys), num_nodes, directed, int(held.sum()), generator)
    pairs = np.concatenate([np.stack(np.divmod(links, num_nodes)), negative], 1)
    return LinkFolds(
        kept=loops | np.isin(keys, links[folds == TRAIN]),
        pairs=pairs,
        y=(np.arange(pairs.shape[1]) < links.size).astype(np.float32)[:, None],
        split=np.concatenate([folds, np.repeat([1, 2], held)]),
    )


def pair_keys(pairs: Array, num_nodes: int, directed: bool) -> Array:
    """A unique integer per pair, (2, P) -> (P,); equal for both directions of undirected edges."""
    first, second = pairs.astype(np.int64)
    if not directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    keys: Array = first * num_nodes + second
    return keys


def non_edges(keys: Array, num_nodes: int, directed: bool, count: int, generator: np.random.Generator) -> Array:
    """Negative pairs: distinct nodes that are not among ``keys``, drawn uniformly, (2, count).

    Args:
        keys: `pair_keys` of all edges, sorted.
        num_nodes: Number of nodes.
        directed: Whether (i, j) and (j, i) are different pairs.
        count: Number of pairs, drawn with replacement.
        generator: Source of randomness.

    Raises:
        ValueError: Nearly all pairs are edges.
    """
    found: list[Array] = []
    missing = count
    for _ in range(100):
        drawn = generator.integers(0, num_nodes, (2, 2 * missing + 16))
        drawn = drawn[:, drawn[0] != drawn[1]]
        wanted = pair_keys(drawn, num_nodes, directed)
        at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
        free = drawn[:, keys[at] != wanted] if keys.size else drawn
        found.append(free[:, :missing])
        missing -= found[-1].shape[1]
        if missing == 0:
            return np.concatenate(found, 1)
    raise ValueError(f"the graph must have pairs of nodes without an edge, got nearly none among {num_nodes} nodes")
