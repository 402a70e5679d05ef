"""Reads a graph from a file of any supported format."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from graphprism._checks import check_path
from graphprism.io.edge_list import read_edge_list
from graphprism.io.file_graph import FileGraph, GraphFileError, open_file, read_block
from graphprism.io.graphml import read_graphml
from graphprism.io.packed_npz import read_packed
from graphprism.streaming import open_split

_ZIP, _PARQUET = b"PK", b"PAR1"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_graph(path: str | os.PathLike[str], *, labels: bool | None = False, undirected: bool = False) -> FileGraph:
    r"""Reads an edge list, GraphML or a packed ``.npz``, detected by the first bytes. The first two may be gzipped.

    The third column of an edge list is the edge weight; under a header only if it is called so (weight, w, value, ...),
    else it is ignored. ``note`` says which.

    Also reads Parquet that `graphprism split` wrote, with ``edge_type``, and verifies its checksums.

    Args:
        path: The file.
        labels: Treat the nodes of an edge list as names, and number them in the order of appearance. None does so if
            the first edge of the file has a node that is no number.
        undirected: Add the reverse of every edge (loops are not duplicated), for files that list an edge once.

    Raises:
        GraphFileError: The file cannot be read; a `ValueError` of one sentence, with the line for text files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "path.csv")
    ...     _ = file.write_text("source,target\n0,1\n1,2\n")
    ...     read_graph(file).edge_index.tolist()
    [[0, 1], [1, 2]]
    """
    check_path("path", path)
    file = Path(path)
    try:
        return _read(file, labels, undirected)
    except MemoryError:
        raise GraphFileError(file, "must fit into memory, got a larger graph") from None


def _read(file: Path, labels: bool | None, undirected: bool) -> FileGraph:
    start = _first_bytes(file)
    if not start:
        raise GraphFileError(file, "is empty")
    if start.startswith(_PARQUET):
        return _read_parquet(file, undirected)
    if start.startswith(_ZIP):
        graph = read_packed(file)
    elif start.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"<") or ".graphml" in file.suffixes:
        graph = read_graphml(file)
    else:
        graph = read_edge_list(file, labels=labels)
    return _both_ways(graph) if undirected else graph


def _read_parquet(file: Path, undirected: bool) -> FileGraph:
    if undirected:
        raise GraphFileError(file, "`undirected` must be given when the edges are split, got edges with types")
    found = open_split(file).read()
    keys = ("edge_index", "num_nodes", "edge_type", "edge_weight", "batch")
    labels = tuple(map(str, found["node_id"].tolist())) if "node_id" in found else None
    return FileGraph(**{key: found[key] for key in keys if key in found}, labels=labels, name=file.name)


def _first_bytes(path: Path) -> bytes:
    with open_file(path) as file:
        return read_block(path, file, 512, 1)


def _both_ways(graph: FileGraph) -> FileGraph:
    turned = graph.edge_index[0] != graph.edge_index[1]
    columns: dict[str, Any] = {
        key: torch.cat([value, value[turned]])
        for key in ("edge_attr", "edge_weight")
        if (value := getattr(graph, key)) is not None
    }
    edge_index = torch.cat([graph.edge_index, graph.edge_index[:, turned].flip(0)], dim=1)
    return replace(graph, edge_index=edge_index, **columns)
