"""Reader of the packed format: arrays of one or many graphs in one .npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.io.file_graph import FileGraph, GraphFileError
from graphprism.packed import Array, Arrays, check_rows, graph_sizes, open_arrays, parse_about

_KEYS = ("about", "edge_index", "x", "edge_attr", "edge_weight", "num_nodes", "num_edges")


def read_packed(path: Path) -> FileGraph:
    """Reads a packed ``.npz`` file as one batch, without pickle.

    Arrays: ``edge_index`` (2, E), numbered within each graph; ``x`` (N, F); optionally ``edge_attr`` (E, D) and
    ``edge_weight`` (E,); ``num_nodes`` and ``num_edges`` (G,), the sizes of the graphs, absent for a single graph;
    ``about``, JSON with the ``name``.
    """
    try:
        arrays = open_arrays(path, _KEYS)
        nodes, edges = graph_sizes(arrays)
        return _as_batch(arrays, nodes, edges, default_name=path.stem)
    except ValueError as error:
        raise GraphFileError(path, str(error)) from error


def _as_batch(arrays: Arrays, nodes: Array, edges: Array, default_name: str) -> FileGraph:
    offset = np.repeat(np.cumsum(nodes) - nodes, edges)
    about = parse_about(arrays.get("about")) or {}
    attr = _rows(arrays, "edge_attr", int(edges.sum()))
    names = _edge_names(about)
    return FileGraph(
        edge_index=torch.from_numpy(arrays["edge_index"].astype(np.int64) + offset),
        num_nodes=int(nodes.sum()),
        x=_rows(arrays, "x", int(nodes.sum())),
        edge_attr=attr,
        edge_weight=_weight(arrays, int(edges.sum())),
        batch=torch.from_numpy(np.repeat(np.arange(nodes.size), nodes)) if nodes.size > 1 else None,
        name=str(about.get("name", "")) or default_name,
        edge_names=names if attr is not None and attr.dim() == 2 and attr.size(1) == len(names) else (),
    )


def _rows(arrays: Arrays, key: str, rows: int) -> Tensor | None:
    array = arrays.get(key)
    if array is None:
        return None
    check_rows(key, array, rows)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _weight(arrays: Arrays, edges: int) -> Tensor | None:
    weight = _rows(arrays, "edge_weight", edges)
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"`edge_weight` must have shape [{edges}], got {list(weight.shape)}")
    return weight if weight is None or weight.dtype == torch.float64 else weight.float()


def _edge_names(about: dict[str, Any]) -> tuple[str, ...]:
    """Names of the columns of edges in the tables that a data set was imported from."""
    preprocessing = about.get("preprocessing")
    columns = preprocessing.get("edges") if isinstance(preprocessing, dict) else None
    return tuple(str(each.get("name")) for each in columns or [] if isinstance(each, dict))
