"""Turns tables into graphs by a fitted preprocessing: for a data set, or for prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphprism._text import counted
from graphprism.datasets.graph_tables import GraphTables
from graphprism.datasets.packed_dataset import PackedDataset, pack_ids, small_whole, unpack_ids
from graphprism.datasets.preprocessing import Preprocessing, wanted_texts
from graphprism.io.columns import Columns

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class AssembledGraph:
    """Graphs without targets, and the ids of their nodes or graphs.

    Attributes:
        dataset: The graphs.
        ids: Ids of the nodes, or of the graphs at graph level, in their order.
        id_column: Name of the column of ids.
    """

    dataset: PackedDataset
    ids: list[str]
    id_column: str


class UnknownNodeError(ValueError):
    """An edge ends at a node that is in no table."""


def assemble(
    tables: GraphTables,
    pre: Preprocessing,
    name: str,
    notices: list[str] | None = None,
    before: PackedDataset | None = None,
) -> AssembledGraph:
    """Applies a preprocessing to tables, those it was fitted to or new ones.

    Args:
        tables: The tables.
        pre: The fitted preprocessing.
        name: Name of the data set.
        notices: Sentences about edges and ids are appended to it.
        before: A graph, packed by the same preprocessing with its ids, that the nodes and edges are added to.

    Raises:
        UnknownNodeError: An edge ends at an unknown node.
        ValueError: A column is missing, or an id is duplicated.
    """
    notices = [] if notices is None else notices
    nodes, edges, names = tables.nodes, tables.edges, pre.names
    ends = wanted_texts(edges, [names["source"], names["destination"]])
    graph_ids = None
    old = [] if before is None or before.node_ids is None else unpack_ids(before.node_ids)
    known_ids = set(old)
    if nodes is None:
        texts = [each for each in dict.fromkeys(np.stack(ends, 1).reshape(-1).tolist()) if each not in known_ids]
    elif names["id"]:
        texts = wanted_texts(nodes, [names["id"]])[0].tolist()
        for row, text in enumerate(texts if old else ()):
            if text in known_ids:
                must = "must be the id of a new node, got that of one of the graph"
                raise ValueError(f"{nodes.path}: {text!r} in the column {names['id']!r}, row {row + 1}, {must}")
    else:
        texts = [str(len(old) + number) for number in nodes.rows]
    ids = np.array([*old, *texts], dtype=object)
    owner = np.zeros(ids.size, np.int64)
    if pre.level == "graph":
        if tables.graphs is None or nodes is None:
            raise ValueError(f"{edges.path.parent}: must have tables of nodes and of graphs, as in training")
        graph_ids = wanted_texts(tables.graphs, [names["graph_id"]])[0]
        owner = _numbers_of(wanted_texts(nodes, [names["graph"]])[0], graph_ids, nodes, names["graph"])
    where = nodes.path if nodes is not None else edges.path
    edge_index, edge_owner = _ends(ids, owner, ends, tables, pre, where)
    order = np.argsort(owner, kind="stable")
    x, edge_attr, weight = pre.node_input(nodes, len(texts)), pre.edge_input(edges), pre.edge_weight(edges)
    if before is not None:
        x = np.concatenate([before.x.numpy(), x])
        edge_index = np.concatenate([before.edge_index.numpy().astype(np.int64), edge_index], 1)
        edge_owner = np.zeros(edge_index.shape[1], np.int64)
        if edge_attr is not None and before.edge_attr is not None:
            edge_attr = np.concatenate([before.edge_attr.numpy(), edge_attr])
        if weight is not None and before.edge_weight is not None:
            weight = np.concatenate([before.edge_weight.numpy(), weight])
    x = x[order]
    count = 1 if graph_ids is None else graph_ids.size
    sizes = np.bincount(owner, minlength=count)
    if graph_ids is not None and nodes is not None and tables.graphs is not None and (sizes == 0).any():
        empty = graph_ids[sizes == 0].tolist()
        shown = ", ".join(empty[:3]) + (", ..." if len(empty) > 3 else "")
        rows = f"{counted(empty, 'graph')} without a row in {nodes.path.name}"
        notices.append(f"{tables.graphs.path.name}: {rows} ({shown}), kept without nodes.")
    first = np.cumsum(sizes) - sizes
    place = np.empty(ids.size, np.int64)
    place[order] = np.arange(ids.size) - np.repeat(first, sizes)
    edge_index, edge_owner, edge_attr, weight = _tidy(place[edge_index], edge_owner, edge_attr, weight, pre, notices)
    edge_sizes = np.bincount(edge_owner, minlength=count)
    dataset = PackedDataset(
        name=name,
        level=pre.level,
        task="regression",
        metric="mae",
        # at graph level, integers would be types
        x=torch.from_numpy(x) if pre.level == "graph" else small_whole(torch.from_numpy(x)),
        edge_index=torch.from_numpy(edge_index),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr),
        y=torch.zeros(0, 1),
        node_ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)])),
        edge_ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(edge_sizes)])),
        node_types=pre.num_node_types,
        edge_types=pre.num_edge_types,
        directed=pre.directed,
        node_ids=pack_ids(ids.tolist()) if graph_ids is None and ids.size else None,
        edge_weight=None if weight is None else torch.from_numpy(weight),
    )
    listed = ids if graph_ids is None else graph_ids
    return AssembledGraph(dataset, listed.tolist(), names["graph_id" if pre.level == "graph" else "id"] or "id")


def _numbers_of(wanted: Array, known: Array, table: Columns, column: str) -> Array:
    """Index of each text among the known ones."""
    place = _places(known, table.path, column)
    for row, text in enumerate(wanted):
        if text not in place:
            raise ValueError(f"{table.path}: row {row + 1} has {column} {text!r}, which must be one of the graphs")
    return np.array([place[text] for text in wanted], np.int64)


def _places(ids: Sequence[Any] | Array, path: Path, column: str) -> dict[Any, int]:
    place: dict[Any, int] = {}
    for row, each in enumerate(ids):
        if each is None:
            raise ValueError(f"{path}: every row must have an id in the column {column!r}, got none in row {row + 1}")
        if place.setdefault(each, row) != row:
            shown = each[-1] if isinstance(each, tuple) else each
            raise ValueError(
                f"{path}: an id must be there once in the column {column!r}, got {shown!r} again in row {row + 1}"
            )
    return place


def _ends(
    ids: Array, owner: Array, ends: Sequence[Array], tables: GraphTables, pre: Preprocessing, where: Path
) -> tuple[Array, Array]:
    """Rows of nodes at both ends of every edge, (2, E), and its graph, (E,)."""
    edges, by_graph = tables.edges, pre.names["edge_graph"]
    column = pre.names["id"] or "row number"
    if by_graph and tables.graphs is not None:
        graph_ids = tables.graphs.text(pre.names["graph_id"])
        graph = _numbers_of(wanted_texts(edges, [by_graph])[0], graph_ids, edges, by_graph)
        place = _places(list(zip(owner.tolist(), ids.tolist(), strict=True)), where, column)
        keys = [list(zip(graph.tolist(), end.tolist(), strict=True)) for end in ends]
    else:
        place = _places(ids.tolist(), where, column)
        keys = [end.tolist() for end in ends]
    rows = np.array([[place.get(key, -1) for key in one] for one in keys], np.int64).reshape(2, -1)
    if (rows < 0).any():
        bad = np.flatnonzero((rows < 0).any(0))
        end = int(rows[0, bad[0]] >= 0)
        text = ends[end][bad[0]]
        must = f"every edge must end at a node of {where.name} (column {column!r})"
        raise UnknownNodeError(
            f"{edges.path}: {must}, got {text!r} in row {bad[0] + 1}, and {counted(int(bad.size), 'such edge')} in all"
        )
    crossing = np.flatnonzero(owner[rows[0]] != owner[rows[1]])
    if crossing.size:
        raise ValueError(f"{edges.path}: both ends of an edge must be in one graph, got two in row {crossing[0] + 1}")
    return rows, owner[rows[0]]


def _tidy(
    edge_index: Array, owner: Array, attr: Array | None, weight: Array | None, pre: Preprocessing, notices: list[str]
) -> tuple[Array, Array, Array | None, Array | None]:
    """Edges sorted by graph, without duplicates (same ends, attributes and weight); undirected ones both ways."""
    count = edge_index.shape[1]
    once = _first_of_each(owner, edge_index, attr, weight)
    if once.size < count:
        notices.append(f"{counted(count - once.size, 'duplicate edge')} merged.")
    loops = int((edge_index[0, once] == edge_index[1, once]).sum())
    if loops:
        notices.append(f"{counted(loops, 'self-loop')} kept.")
    if not pre.directed:
        edge_index = np.concatenate([edge_index, edge_index[::-1]], 1)
        owner = np.concatenate([owner, owner])
        attr, weight = (None if each is None else np.concatenate([each, each]) for each in (attr, weight))
        both = _first_of_each(owner, edge_index, attr, weight)
        if both.size > once.size:
            notices.append("Edges are taken both ways (--directed keeps them as they are).")
        once = both
    if weight is not None and (differing := once.size - _first_of_each(owner, edge_index, attr).size):
        notices.append(
            f"{counted(differing, 'edge')} with the ends of another one and a different weight: all of them count."
        )
    attr, weight = (None if each is None else each[once] for each in (attr, weight))
    return edge_index[:, once], owner[once], attr, weight


def _first_of_each(owner: Array, edge_index: Array, attr: Array | None, weight: Array | None = None) -> Array:
    """Index of the first occurrence of each distinct edge, sorted by graph, ends, attributes and weight."""
    columns = [owner, *edge_index, *([] if attr is None else attr.T), *([] if weight is None else [weight])]
    places: Array = np.unique(
        np.stack([np.asarray(each, np.float64) for each in columns], 1), axis=0, return_index=True
    )[1]
    return places
