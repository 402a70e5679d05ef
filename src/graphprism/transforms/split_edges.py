"""Transform from a plain graph to a multi-relational one, applied once, before training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import BaseTransform

from graphprism._checks import (
    check_flag,
    check_floating,
    check_integer,
    check_no_nan,
    check_range,
    check_shape,
    check_whole,
)
from graphprism.splitting import GraphLike, Split, resolve_split
from graphprism.splitting.check_split import disjoint
from graphprism.splitting.held_out_links import split_graph
from graphprism.splitting.ranks import order_columns, ranked, relations_between_types, relations_by_ranks


def check_homogeneous(data: object) -> None:
    """Raises unless ``data`` is a ``Data`` or ``Batch`` whose edges refer to existing nodes."""
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a torch_geometric Data or Batch, got {type(data).__name__}")
    if data.edge_index is None:
        raise ValueError("`data.edge_index` must be given, got None")
    check_shape("data.edge_index", data.edge_index, [2, "E"])
    check_integer("data.edge_index", data.edge_index)
    if data.num_nodes is not None:
        check_whole("data.num_nodes", data.num_nodes)
    check_range("data.edge_index", data.edge_index, int(data.num_nodes or 0))
    weight = data.get("edge_weight")
    if weight is not None:
        check_shape("data.edge_weight", weight, [data.edge_index.size(1)])
        check_floating("data.edge_weight", weight)
        check_no_nan("data.edge_weight", weight)


class SampledGraphWarning(UserWarning):
    """A sampled batch was split: degrees and other orders are those of the sample, not of the whole graph."""


class SplitEdges(BaseTransform):
    """Writes ``data.edge_type``: the relation of every edge, which PyG then batches like any edge attribute.

    Apply it to the full graph, before sampling, so that orderings such as the degree are those of the whole graph;
    loaders keep ``edge_type``. The first batch of a loader that is split gives a `SampledGraphWarning`.
    Apply it after every transform that adds, removes or reverses edges (``T.ToUndirected``, ``T.AddSelfLoops``, ...).
    For link prediction apply it after ``T.RandomLinkSplit``, to the training graph: the degrees of the whole graph
    would leak the held-out edges, and `graphprism.check_split` raises.

    It also writes ``data.node_order``, the ranks that it compared (tied nodes have equal ranks), and
    ``data.split_rule``, a string with the rule from ranks to ``edge_type``. Samplers, batches and subgraphs keep both,
    so that `graphprism.check_split` can detect types that no longer fit the edges. ``node_order`` has one column per
    ordering, and a second one for floating-point values: the largest rank that a node ties with, as ties within a
    tolerance are not transitive. Where relations depend on other edges and no links were held out yet, the string
    ``data.split_graph`` has the numbers of nodes and edges that were split.

    In a ``HeteroData`` every edge type is split. The ordering of a node type is computed on the graph of all edges
    between nodes of that type. Nodes of different types are not compared: edges between them are ties.

    Args:
        split: text, such as ``"degree"``, ``"degree, ppr"`` (the second decides ties of the first) or
            ``"degree * attr(edge_attr)"`` (product; see `graphprism.splitting.expression`), a `Split`, a tensor, or any
            function of a graph that gives (E,) relations or (E, R) scores.
        overwrite: whether to replace an ``edge_type`` that `SplitEdges` did not write, such as the relations of a
            knowledge graph; else it raises.

    Example:
        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> path = SplitEdges("degree")(path)
        >>> path.edge_type.tolist(), path.node_order.tolist()  # 0 up, 1 down, 2 tie
        ([0, 1, 1, 0], [0, 1, 0])
    """

    _has_warned = False

    def __init__(
        self, split: str | Split | Tensor | Callable[[GraphLike], Tensor] = "degree", *, overwrite: bool = False
    ) -> None:
        check_flag("overwrite", overwrite)
        self.split, self.overwrite = resolve_split(split), overwrite

    def forward(self, data: Data | HeteroData) -> Data | HeteroData:
        """``data`` with ``edge_type``, ``node_order``, ``split_rule`` and ``split_graph``."""
        if isinstance(data, HeteroData):
            return self._split_each(data)
        check_homogeneous(data)
        self._check_free("data", data, "edge_type", "node_order")
        relation, order, rule = ranked(self.split, data)
        if order is not None:
            self._warn_if_sampled(data)
        data.edge_type, data.split_rule = relation, rule
        _write(data, "node_order", order)
        self._write_graph(data, int(data.num_nodes or 0))
        return data

    def _warn_if_sampled(self, data: Data | HeteroData) -> None:
        """Warns once about a batch of a loader, which carries the numbers of its seeds and of its nodes or edges."""
        keys = {key for store in data.stores for key in store}
        if self._has_warned or "input_id" not in keys or keys.isdisjoint({"n_id", "e_id"}):
            return
        self._has_warned = True
        warnings.warn(
            f"{self!r} should get the whole graph, got a sampled batch (it has `input_id`): degrees are those of the "
            "sample; split the graph before the loader is made, which then gives every batch its `edge_type`",
            SampledGraphWarning,
            stacklevel=5 if isinstance(data, HeteroData) else 4,
        )

    def _split_each(self, data: HeteroData) -> HeteroData:
        """Splits every edge type of a ``HeteroData``."""
        if not data.edge_types:
            raise ValueError("`data` must have at least one edge type, got none")
        orders: dict[str, tuple[Tensor | None, list[list[int]]]] = {}
        for node_type in sorted({source for source, _, target in data.edge_types if source == target}):
            orders[node_type] = order_columns(self.split, _graph_of_nodes(data, node_type))
        if any(order is not None for order, _ in orders.values()):
            self._warn_if_sampled(data)
        for source, name, target in data.edge_types:
            store = data[source, name, target]
            self._check_free(f"data[{source!r}, {name!r}, {target!r}]", store, "edge_type")
            graph = _graph_of_edges(data, source, name, target)
            store.edge_type, store.split_rule = (
                relations_by_ranks(self.split, graph, *orders[source])
                if source == target
                else relations_between_types(self.split, graph)
            )
            self._write_graph(store, int(graph.num_nodes), between_types=source != target)
        for node_type, (order, _) in orders.items():
            _write(data[node_type], "node_order", _column(order))
        return data

    def _write_graph(self, store: Any, num_nodes: int, between_types: bool = False) -> None:
        size = split_graph(self.split, store.keys(), num_nodes, store.edge_index.size(1), between_types)
        _write(store, "split_graph", size)

    def _check_free(self, name: str, store: Any, *keys: str) -> None:
        for key in keys:
            if store.get(key) is not None and store.get("split_rule") is None and not self.overwrite:
                raise ValueError(
                    f"`{name}.{key}` must not be there yet, got one that `SplitEdges` did not write: rename it, which "
                    'a split can then read by its new name (`"degree * attr(NAME)"`), or pass `overwrite=True`'
                )

    def __repr__(self) -> str:
        return f"SplitEdges({self.split!r})"


def _column(order: Tensor | None) -> Tensor | None:
    return order[:, 0] if order is not None and order.size(1) == 1 else order


def _write(store: Any, key: str, value: Tensor | str | None) -> None:
    if value is not None:
        store[key] = value
    elif key in store:  # of an earlier split
        del store[key]


def _graph_of_nodes(data: HeteroData, node_type: str) -> Data:
    """The nodes of one type with all edges between two of them."""
    own = [data[key].edge_index for key in data.edge_types if key[0] == key[2] == node_type]
    graph = Data(**dict(data[node_type].items()))
    graph.edge_index, graph.num_nodes = torch.cat(own, dim=1), data[node_type].num_nodes
    check_homogeneous(graph)
    return graph


def _graph_of_edges(data: HeteroData, source: str, name: str, target: str) -> Data:
    """The edges of one type; between two node types, targets are numbered after the sources."""
    store = data[source, name, target]
    nodes = dict(data[source].items()) if source == target else {}
    graph = Data(**{**nodes, **dict(store.items())})
    graph.num_nodes = data[source].num_nodes
    if source != target:
        graph.edge_index = disjoint(store.edge_index, data[source].num_nodes)
        graph.num_nodes += data[target].num_nodes
    check_homogeneous(graph)
    return graph
