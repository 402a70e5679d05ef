"""Check that ``edge_type`` still fits ``edge_index`` after other transforms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_shape, check_tensor
from graphprism.splitting.graph import Graph, edges_of
from graphprism.splitting.held_out_links import check_held_out
from graphprism.splitting.ranks import Factor, compare_ranks, is_of, num_relations_of, read_rule
from graphprism.splitting.split import Split, checked_relations, number_names
from graphprism.splitting.splits import DIRECTION_NAMES, ORDER_NAMES, TIE, by_direction

_ADVICE = "apply `SplitEdges` last, to the graph that the model sees (for link prediction to the training graph)"
_SUMMED = "edge types were summed or edges of a new kind were added (T.ToUndirected, coalesce, T.VirtualNode)"
_REVERSED = "edges were reversed but kept their types (T.ToUndirected, T.RandomLinkSplit)"
_LOOPS = "self-loops were added, which are ties (T.AddSelfLoops, T.AddRemainingSelfLoops)"
_RESORTED = "edges were sorted without their types, or types without their edges"
_REPLACED = "edges were added or their types replaced"
_COUNTS = "edges were added or removed without their types (T.AddSelfLoops, T.AddRemainingSelfLoops, T.KNNGraph)"


def check_split(data: Any) -> None:
    """Raises `ValueError` unless ``data.edge_type`` holds the relations that `SplitEdges` wrote for these edges.

    Recomputes the relations, in time linear in the edges, from ``data.node_order`` (the ranks that the split compared)
    and ``data.split_rule``. Relations by an attribute are compared with that attribute if ``data`` still has it. For
    `by_direction`, one-way edges must have no reverse edge. Scores and relations by a function cannot be recomputed
    and are not checked. If `SplitEdges` did not write ``edge_type``, only its length is checked.

    Raises also if links were held out after the split, as relations would know of them: labels of links
    (``edge_label_index`` of ``T.RandomLinkSplit``) were added, and edges are fewer than those that were split
    (``data.split_graph``). Sampled batches and subgraphs of some nodes are not checked for this: check the graph that
    they come from.

    Args:
        data: a ``Data``, ``Batch``, subgraph or sampled batch with ``edge_type``, or a ``HeteroData``.

    Example:
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.transforms import ToUndirected
        >>> from graphprism.transforms import SplitEdges
        >>> path = SplitEdges("degree")(Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3))
        >>> check_split(path)
        >>> check_split(ToUndirected()(path))
        Traceback (most recent call last):
        ...
        ValueError: `data.edge_type` must hold the relations that `SplitEdges` wrote, got 2 of 4 edges with another \
relation: edges were reversed but kept their types (T.ToUndirected, T.RandomLinkSplit); apply `SplitEdges` last, to \
the graph that the model sees (for link prediction to the training graph)
    """
    if hasattr(data, "edge_types") and hasattr(data, "node_types"):
        is_split = any(store.get("split_rule") is not None for store in data.edge_stores)
        for source, name, target in data.edge_types:
            store = data[source, name, target]
            if store.get("edge_type") is not None:
                order = data[source].get("node_order") if source == target else None
                sizes = (data[source].num_nodes, data[target].num_nodes)
                where = f"data[{source!r}, {name!r}, {target!r}]"
                if is_split and store.get("split_rule") is None:
                    raise ValueError(
                        f"`{where}.edge_type` must be of `SplitEdges`, as that of other edges is, got one of another "
                        f"source: edges of a new kind were added (T.ToUndirected); {_ADVICE}"
                    )
                _check_edges(where, store, order, sizes, is_bipartite=source != target)
        return
    if getattr(data, "edge_type", None) is None:
        raise ValueError("`data.edge_type` must be given (the transform `SplitEdges` writes it), got None")
    _check_edges("data", data, getattr(data, "node_order", None), (data.num_nodes, data.num_nodes))


def split_relations(data: Any) -> int | None:
    """Number of relations of the split stored in ``data``; None if it is not stored."""
    rule = _rule_of("data", getattr(data, "split_rule", None))
    return None if rule is None else num_relations_of(rule)


def other_split(data: Any, split: Split) -> str | None:
    """The split stored in ``data``, in words, if it is known and not ``split``; else None."""
    rule = _rule_of("data", getattr(data, "split_rule", None))
    if rule is None or is_of(rule, split):
        return None
    words = {"attribute": "by_attribute({detail!r})", "direction": "by_direction()"}
    return " * ".join(each.name or words.get(each.kind, each.kind).format(detail=each.detail) for each in rule)


def split_names(data: Any, num_relations: int) -> tuple[str, ...] | None:
    """Names of the relations of the split stored in ``data``; None if not stored or not ``num_relations`` many."""
    rule = _rule_of("data", getattr(data, "split_rule", None))
    if rule is None or num_relations_of(rule) != num_relations:
        return None
    names: tuple[str, ...] | None = None
    for factor in rule:
        numbers = number_names(factor.num_relations or 1)
        own = {"order": ORDER_NAMES, "direction": DIRECTION_NAMES}.get(factor.kind, numbers)
        if own is None or (names is None and factor is not rule[0]):
            return None
        names = own if names is None else tuple(f"{name},{other}" for other in own for name in names)
    return names


def _check_edges(
    name: str, store: Any, order: Tensor | None, sizes: tuple[int, int], is_bipartite: bool = False
) -> None:
    """Checks the edges of ``store`` (a ``Data`` or one edge store of a ``HeteroData``); ``order`` holds node ranks."""
    check_tensor(f"{name}.edge_type", store.edge_type)
    num_nodes = sum(sizes) if is_bipartite else sizes[0]
    edge_index = _stored_edges(name, store)
    edge_index = disjoint(edge_index, sizes[0]) if is_bipartite else edge_index
    edge_index = edges_of(Graph(edge_index, num_nodes))
    num_edges, found = edge_index.size(1), store.edge_type
    if found.size(0) != num_edges:
        raise ValueError(
            f"`{name}.edge_type` must have one entry for each of {num_edges} edges, got {found.size(0)}: "
            f"{_COUNTS}; {_ADVICE}"
        )
    rule = _rule_of(name, getattr(store, "split_rule", None))
    if rule is None:
        return
    check_held_out(name, store, num_nodes, num_edges)
    if found.dim() != 1:
        return
    check_integer(f"{name}.edge_type", found)
    if order is not None and order.size(0) != sizes[0]:
        raise ValueError(
            f"`node_order` must have one row for each of {sizes[0]} nodes, got {order.size(0)}: "
            f"nodes were added or removed without their ranks; {_ADVICE}"
        )
    same = _expected(found.long(), edge_index, store, order, rule, num_nodes)
    wrong = found != same
    count = int(wrong.sum())
    if count:
        back = _expected(found.long(), edge_index.flip(0), store, order, rule, num_nodes)
        cause = _cause(found, wrong, same, back, edge_index, num_relations_of(rule))
        raise ValueError(
            f"`{name}.edge_type` must hold the relations that `SplitEdges` wrote, got {count} of {num_edges} edges "
            f"with another relation: {cause}; {_ADVICE}"
        )


def _stored_edges(name: str, store: Any) -> Tensor:
    """``edge_index``, or the entries of ``adj_t`` (T.ToSparseTensor), in whose order ``edge_type`` then is."""
    adj_t = getattr(store, "adj_t", None)
    if getattr(store, "edge_index", None) is None and isinstance(adj_t, Tensor) and adj_t.layout != torch.strided:
        entries: Tensor = adj_t.to_sparse_coo().coalesce().indices()
        if adj_t.layout == torch.sparse_csc:  # whose entries are by column
            entries = entries[:, entries[1].argsort(stable=True)]
        return entries.flip(0)
    found: Tensor = store.edge_index
    check_shape(f"{name}.edge_index", found, [2, "E"])
    return found


def disjoint(edge_index: Tensor, num_sources: int) -> Tensor:
    """Bipartite edges in one node numbering: the targets are numbered after the sources."""
    return torch.stack([edge_index[0], edge_index[1] + num_sources])


def _rule_of(name: str, rule: object) -> list[Factor] | None:
    if isinstance(rule, list | tuple) and rule:  # of a batch: one for each graph
        if any(each != rule[0] for each in rule):
            raise ValueError(f"`{name}` must hold graphs of one split, got several: {sorted(set(map(str, rule)))}")
        rule = rule[0]
    return read_rule(rule) if isinstance(rule, str) else None


def _expected(
    found: Tensor, edge_index: Tensor, store: Any, order: Tensor | None, rule: list[Factor], num_nodes: int
) -> Tensor:
    """Recomputed relations of the edges; factors that cannot be recomputed are copied from ``found``."""
    relation, stride, at = torch.zeros_like(found), 1, 0
    source, target = edge_index
    columns = order[:, None] if order is not None and order.dim() == 1 else order
    for factor in rule:
        digit = found.div(stride, rounding_mode="floor")
        digit = digit if factor.num_relations is None else digit % factor.num_relations
        if factor.kind == "order" and not factor.detail:
            digit = torch.full_like(found, TIE)
        elif factor.kind == "order" and columns is not None:
            widths = factor.detail
            ranks = columns[:, at : at + sum(widths)]
            check_shape("node_order", ranks, [order.size(0), sum(widths)])  # type: ignore[union-attr]
            digit = compare_ranks(ranks[source], ranks[target], widths)
            at += sum(widths)
        elif factor.kind == "attribute" and getattr(store, factor.detail, None) is not None:
            column = getattr(store, factor.detail)
            check_shape(factor.detail, column, [found.size(0), *[1] * (column.dim() - 1)])
            digit = checked_relations(factor.detail, column.flatten(), factor.num_relations)
        elif factor.kind == "direction":
            # a subgraph may lose the reverse edge, but never gains one
            digit = digit.maximum(by_direction()(Graph(edge_index, num_nodes)))
        relation = relation + stride * digit
        stride *= factor.num_relations or 1
    return relation


def _cause(
    found: Tensor, wrong: Tensor, same: Tensor, back: Tensor, edge_index: Tensor, num_relations: int | None
) -> str:
    if num_relations is not None and int(found.max()) >= num_relations:
        return f"{_SUMMED}: types go up to {int(found.max())}, the split has {num_relations}"
    if bool((edge_index[0] == edge_index[1])[wrong].all()):
        return _LOOPS
    if found[wrong].equal(back[wrong]):
        return _REVERSED
    if found.sort().values.equal(same.sort().values):
        return _RESORTED
    return _REPLACED
