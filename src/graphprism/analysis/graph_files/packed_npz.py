"""The packed form: arrays of one graph or of many, in one .npz file."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism.analysis.graph_files.file_graph import FileGraph
from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_Array = npt.NDArray[Any]
_KEYS = ("edge_index", "x", "edge_attr", "num_nodes", "num_edges")


def read_packed(path: Path) -> FileGraph:
    """Reads a packed ``.npz`` file as one batch; nothing in it is executed.

    Arrays: ``edge_index`` (2, E), numbered within each graph; ``x`` (N, F); ``edge_attr`` (E, D) where there is any;
    ``num_nodes`` and ``num_edges`` (G,), the sizes of the graphs, absent where there is one graph; ``about``, JSON with
    the ``name``.
    """
    arrays, about = _arrays(path)
    edge_index = arrays.get("edge_index")
    if edge_index is None or edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype.kind not in "iu":
        raise GraphFileError(path, "must hold whole numbers `edge_index` of shape [2, E]")
    nodes, edges = _sizes(path, arrays, edge_index.shape[1])
    offset, limit = np.repeat(np.cumsum(nodes) - nodes, edges), np.repeat(nodes, edges)
    edge_index = edge_index.astype(np.int64)
    if edge_index.size and (edge_index.min() < 0 or bool((edge_index >= limit).any())):
        raise GraphFileError(path, "`edge_index` must name nodes of its own graph")
    return FileGraph(
        edge_index=torch.from_numpy(edge_index + offset),
        num_nodes=int(nodes.sum()),
        x=_rows(path, arrays, "x", int(nodes.sum())),
        edge_attr=_rows(path, arrays, "edge_attr", edge_index.shape[1]),
        batch=torch.from_numpy(np.repeat(np.arange(nodes.size), nodes)) if nodes.size > 1 else None,
        name=_name(about) or path.stem,
    )


def _arrays(path: Path) -> tuple[dict[str, _Array], str]:
    try:
        # Opened here: numpy leaves a file open that it finds to be no archive.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            about = str(file["about"]) if "about" in file.files else ""
            return {key: file[key] for key in _KEYS if key in file.files}, about
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise GraphFileError(path, f"the .npz file is damaged or holds no plain arrays ({error})") from error


def _sizes(path: Path, arrays: dict[str, _Array], num_edges: int) -> tuple[_Array, _Array]:
    """Nodes and edges of each graph, (G,) and (G,)."""
    if "num_nodes" not in arrays and "x" in arrays and arrays["x"].ndim:
        return np.array([len(arrays["x"])]), np.array([num_edges])
    nodes = np.atleast_1d(arrays.get("num_nodes", np.array([], np.int64)))
    edges = np.atleast_1d(arrays.get("num_edges", np.array([num_edges])))
    whole = nodes.dtype.kind in "iu" and edges.dtype.kind in "iu"
    if nodes.size == 0 or nodes.ndim != 1 or nodes.shape != edges.shape or not whole:
        raise GraphFileError(path, "must hold `x`, or whole numbers `num_nodes` and `num_edges` of the same shape [G]")
    nodes, edges = nodes.astype(np.int64), edges.astype(np.int64)
    if nodes.min() < 0 or edges.min() < 0 or edges.sum() != num_edges:
        raise GraphFileError(path, f"`num_edges` must add up to the {num_edges} edges there are, got {edges.sum()}")
    return nodes, edges


def _rows(path: Path, arrays: dict[str, _Array], key: str, rows: int) -> Tensor | None:
    array = arrays.get(key)
    if array is None:
        return None
    if array.ndim == 0 or len(array) != rows or array.dtype.kind not in "biuf":
        raise GraphFileError(path, f"`{key}` must hold numbers in {rows} rows, got shape {list(array.shape)}")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))


def _name(about: str) -> str:
    try:
        fields = json.loads(about)
    except ValueError:
        return ""
    return str(fields.get("name", "")) if isinstance(fields, dict) else ""
