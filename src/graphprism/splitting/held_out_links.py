"""Detects links that were held out after the split: the relations would know of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from graphprism.splitting.edge_values import ByEdgeValue
from graphprism.splitting.orderings import FixedOrder, NamedOrdering, Ordering
from graphprism.splitting.split import Only, Product, Split
from graphprism.splitting.splits import ByAttribute, ByFunction, ByOrder, BySoftOrder, FixedRelations

# What loaders write into batches, whose edges are fewer than those of their graph.
_SAMPLED = ("n_id", "e_id", "input_id")
# Orderings that say nothing about edges; a random one depends on them as on a seed.
_OF_NODES = ("features", "random")


def split_graph(split: Split, keys: Iterable[str], num_nodes: int, num_edges: int, between_types: bool) -> str | None:
    """Size of the graph that was split, as a string, which survives samplers, batching and files.

    None if links were held out before (``keys`` of the graph have labels of links), or if relations do not depend on
    which other edges there are.

    >>> from graphprism.splitting import by_order
    >>> split_graph(by_order("degree"), ["x", "edge_index"], 34, 156, between_types=False)
    '[34, 156]'
    """
    if _label_key(keys) is not None or not depends_on_edges(split, between_types):
        return None
    return json.dumps([num_nodes, num_edges])


def depends_on_edges(split: Split, between_types: bool = False) -> bool:
    """Whether the relation of an edge depends on which other edges there are; True if it is not known.

    Args:
        split: from a graph to relations.
        between_types: whether edges join nodes of different types, which no ordering compares.
    """
    if isinstance(split, Product):
        return depends_on_edges(split.left, between_types) or depends_on_edges(split.right, between_types)
    if isinstance(split, Only):
        return depends_on_edges(split.split, between_types)
    if isinstance(split, ByOrder | BySoftOrder):
        orderings = split.orderings if isinstance(split, ByOrder) else (split.ordering,)
        return not between_types and not all(map(_is_of_nodes, orderings))
    if isinstance(split, ByEdgeValue):  # the default threshold of a similarity is the mean over all edges
        return split.name != "similarity" or split.threshold is None
    if isinstance(split, ByFunction):
        return not isinstance(split.f, FixedRelations)
    return not isinstance(split, ByAttribute)


def _is_of_nodes(ordering: str | Ordering) -> bool:
    name = ordering.name if isinstance(ordering, NamedOrdering) else ordering
    return isinstance(ordering, FixedOrder) or (isinstance(name, str) and name in _OF_NODES)


def check_held_out(name: str, store: Any, num_nodes: int, num_edges: int) -> None:
    """Raises if labels of links were added to all nodes of the graph that was split, and edges were taken away.

    Subgraphs and sampled batches have fewer edges, too, but also fewer nodes or the keys of a loader.
    """
    keys = list(store.keys()) if hasattr(store, "keys") else []
    label = _label_key(keys)
    size = _size(getattr(store, "split_graph", None))
    if label is None or size is None or any(key in keys for key in _SAMPLED):
        return
    if num_nodes == size[0] and num_edges < size[1]:
        raise ValueError(
            f"`{name}.edge_type` must come from the graph without the links that are held out, got relations of "
            f"{size[1]} edges, of which {num_edges} are left, and a later `{label}`: `SplitEdges` came before "
            "T.RandomLinkSplit, so that relations know of held-out links; apply T.RandomLinkSplit first, then "
            "`SplitEdges` to each fold"
        )


def _label_key(keys: Iterable[str]) -> str | None:
    """The key of labelled links, as T.RandomLinkSplit writes them (also ``pos_edge_label_index``), if any."""
    return next((key for key in keys if key.endswith("label_index")), None)


def _size(written: object) -> tuple[int, int] | None:
    """Nodes and edges of the graph that was split, or of all graphs of a batch."""
    texts = [written] if isinstance(written, str) else written
    if not isinstance(texts, list | tuple) or not texts:
        return None
    try:
        sizes = [(int(nodes), int(edges)) for nodes, edges in map(json.loads, texts)]
    except (TypeError, ValueError):
        raise ValueError(f"`data.split_graph` must be as `SplitEdges` wrote it, got {written!r}") from None
    return sum(nodes for nodes, _ in sizes), sum(edges for _, edges in sizes)
