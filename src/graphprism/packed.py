"""The packed format: arrays of one graph or of many in one .npz file, opened and checked.

Errors are `ValueError`s that do not name the file; the caller adds its name.
"""

from __future__ import annotations

import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from graphprism._files import check_regular, check_unpacked

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

_MOST_NODES = 1 << 48
# Isolated nodes that a file without features may declare: they take no bytes in the file, but memory later.
_SPARE_NODES = 10_000_000
# Errors that numpy and zipfile raise on corrupt files; a wrong size in a header ends in a MemoryError.
_DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    SyntaxError,
    MemoryError,
    OverflowError,
    RuntimeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def parse_about(text: object) -> dict[str, Any] | None:
    """What a file says of itself, JSON in its array ``about``; None if it is no object."""
    try:
        fields = json.loads(str(text))
    except (ValueError, RecursionError):  # text that is nested too deeply
        return None
    return fields if isinstance(fields, dict) else None


def open_arrays(path: Path, keys: Iterable[str]) -> Arrays:
    """Reads those of ``keys`` that the file holds, in full, without executing anything in it."""
    check_regular(path)
    try:
        # Opened here: numpy leaks the handle of a file that is no archive.
        with path.open("rb") as raw:
            if not zipfile.is_zipfile(raw):  # numpy would also read a single array
                raise ValueError("it is no zip archive")
            raw.seek(0)
            arrays = _read_arrays(raw, keys, path.stat().st_size)
    except _DAMAGE as error:
        raise ValueError(f"the .npz file is damaged or holds no plain arrays ({error})") from error
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a member that is no .npy file comes as its bytes
            raise ValueError(f"`{key}` must be an array")
        check_booleans(f"`{key}`", array)
    return arrays


def _read_arrays(raw: IO[bytes], keys: Iterable[str], size: int) -> Arrays:
    with np.load(raw, allow_pickle=False) as file:
        names = [key for key in keys if key in file.files]
        members = {info.filename: info.file_size for info in file.zip.infolist()}
        check_unpacked(sum(members.get(f"{key}.npy", members.get(key, 0)) for key in names), size)
        return {key: file[key] for key in names}


def graph_sizes(arrays: Arrays) -> tuple[Array, Array]:
    """Checks ``edge_index`` (2, E) and the sizes; returns the numbers of nodes and edges of each graph, (G,) and (G,).

    Without ``num_nodes`` there is one graph, with one node per row of ``x``.
    """
    edge_index = arrays.get("edge_index")
    if edge_index is None or edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype.kind not in "iu":
        raise ValueError("must hold whole numbers `edge_index` of shape [2, E]")
    nodes, edges = _sizes(arrays, edge_index.shape[1])
    if edge_index.size and (edge_index.min() < 0 or bool((edge_index >= np.repeat(nodes, edges)).any())):
        raise ValueError("`edge_index` must name nodes of its own graph")
    return nodes, edges


def check_rows(key: str, array: Array, rows: int) -> None:
    """Raises unless ``array`` holds numbers of at most 8 bytes in ``rows`` rows."""
    if array.ndim == 0 or len(array) != rows or array.dtype.kind not in "biuf":
        raise ValueError(f"`{key}` must hold numbers in {rows} rows, got shape {list(array.shape)}")
    if array.dtype.itemsize > 8:
        raise ValueError(f"`{key}` must hold numbers of at most 8 bytes, got {array.dtype}")


def check_booleans(name: str, array: Array) -> None:
    """Raises unless booleans are stored as bytes 0 and 1, which numpy and torch rely on when they allocate memory."""
    if array.dtype.kind == "b" and array.size and int(array.view(np.uint8).max()) > 1:
        raise ValueError(f"{name} must hold booleans stored as 0 or 1, got {int(array.view(np.uint8).max())}")


def _sizes(arrays: Arrays, num_edges: int) -> tuple[Array, Array]:
    if "num_nodes" not in arrays and "x" in arrays and arrays["x"].ndim:
        return np.array([len(arrays["x"])]), np.array([num_edges])
    nodes = np.atleast_1d(arrays.get("num_nodes", np.array([], np.int64)))
    edges = np.atleast_1d(arrays.get("num_edges", np.array([num_edges])))
    whole = nodes.dtype.kind in "iu" and edges.dtype.kind in "iu"
    if nodes.size == 0 or nodes.ndim != 1 or nodes.shape != edges.shape or not whole:
        raise ValueError("must hold `x`, or whole numbers `num_nodes` and `num_edges` of the same shape [G]")
    nodes, edges = nodes.astype(np.int64), edges.astype(np.int64)
    # Sums of huge sizes overflow, and could then agree by accident.
    if nodes.min() < 0 or nodes.max() > _MOST_NODES // nodes.size:
        raise ValueError(f"`num_nodes` must be whole numbers that fit into memory, got {nodes.min()} to {nodes.max()}")
    if "x" not in arrays and nodes.sum() > 2 * num_edges + _SPARE_NODES:
        most = f"at most {2 * num_edges + _SPARE_NODES} with {num_edges} edges and no `x`"
        raise ValueError(f"`num_nodes` must add up to {most}, got {nodes.sum()}")
    if edges.min() < 0 or edges.max() > num_edges or edges.sum() != num_edges:
        raise ValueError(f"`num_edges` must add up to the {num_edges} edges there are, got {edges.sum()}")
    return nodes, edges
