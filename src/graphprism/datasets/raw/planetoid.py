"""Citation graphs in the files of Planetoid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.pickled_numbers import SparseRows
from graphprism.datasets.raw.torch_file import read_pickle
from graphprism.packed import Array

_FILES = ("x", "y", "allx", "ally", "tx", "ty", "graph", "test.index")
_VALIDATION = 500
# Half a gigabyte of features in float32; CiteSeer has 12 million.
_MOST_CELLS = 1 << 27
_LONGEST_INDEX = 1 << 24


def planetoid(folder: Path, prefix: str) -> Data:
    """Reads ``ind.PREFIX.x`` and its siblings: features, classes, neighbours and the public split of one graph.

    Documents are ordered training, validation, others, test. The files of the test documents are in the order of
    ``test.index``, which may skip numbers: such a document has no features and class 0. Self-loops and duplicate edges
    are removed. The files are pickles; nothing in them is executed.

    Raises:
        DatasetFileError: A file is damaged, holds anything but arrays, or is inconsistent with the others.
    """
    files = {
        key: folder / f"ind.{prefix}.{key}" for key in ("x", "y", "allx", "ally", "tx", "ty", "graph", "test.index")
    }
    test = _test_index(files["test.index"])
    others, num_train = _matrix(files["allx"]), len(_matrix(files["y"]))
    if not np.array_equal(_matrix(files["x"]), others[:num_train]):
        raise DatasetFileError(files["x"], f"it must hold the first {num_train} documents of {files['allx'].name}")
    first, num_nodes = len(others), int(test.max()) + 1
    if test.min() < first or num_nodes > 2 * (first + test.size) or np.unique(test).size != test.size:
        raise DatasetFileError(files["test.index"], f"it must name each test document behind the {first} others once")
    if num_train + _VALIDATION > first:
        wanted = f"{num_train} documents for training and {_VALIDATION} for validation"
        raise DatasetFileError(files["allx"], f"it must hold {wanted}, got {first}")
    x = _all_rows(others, files["tx"], test, num_nodes)
    classes = _matrix(files["ally"])
    if len(classes) != first:
        raise DatasetFileError(files["ally"], f"it must hold the classes of {first} documents, got {len(classes)}")
    y = _all_rows(classes, files["ty"], test, num_nodes).argmax(axis=1)
    masks = np.zeros((3, num_nodes), bool)
    masks[0, :num_train] = masks[1, num_train : num_train + _VALIDATION] = masks[2, test] = True
    train_mask, val_mask, test_mask = map(torch.from_numpy, masks)
    return Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(_edges(files["graph"], num_nodes)),
        y=torch.from_numpy(y),
        train_mask=train_mask,
        val_mask=val_mask,
        test_mask=test_mask,
    )


def _test_index(path: Path) -> Array:
    try:
        if path.stat().st_size > _LONGEST_INDEX:
            raise ValueError(f"it must have at most {_LONGEST_INDEX} bytes")
        numbers = [int(line) for line in path.read_text("ascii").split()]
        if not numbers or not all(0 <= number < 1 << 31 for number in numbers):
            raise ValueError("there must be some, and none negative")
    except ValueError as error:
        raise DatasetFileError(path, f"it must hold numbers of documents ({error})") from error
    return np.array(numbers)


def _matrix(path: Path) -> Array:
    """A dense float32 matrix from an array or a sparse matrix."""
    try:
        found = read_pickle(path)
        if isinstance(found, SparseRows):
            return found.dense(_MOST_CELLS)
        if not isinstance(found, np.ndarray) or found.ndim != 2 or found.shape[1] == 0:
            raise ValueError("it must hold a matrix")
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error
    return found.astype(np.float32)


def _all_rows(others: Array, path: Path, test: Array, num_nodes: int) -> Array:
    rows = _matrix(path)
    if rows.shape != (test.size, others.shape[1]) or num_nodes * others.shape[1] > _MOST_CELLS:
        raise DatasetFileError(path, f"it must have shape {[test.size, others.shape[1]]}, got {list(rows.shape)}")
    whole = np.zeros((num_nodes, others.shape[1]), np.float32)
    whole[: len(others)], whole[test] = others, rows
    return whole


def _edges(path: Path, num_nodes: int) -> Array:
    """Edges (2, E) by target, then by source, from a dictionary of neighbours."""
    try:
        source, target = _pairs(read_pickle(path))
        if source.size and (min(source.min(), target.min()) < 0 or max(source.max(), target.max()) >= num_nodes):
            raise ValueError(f"neighbours must be documents in [0, {num_nodes})")
    except (ValueError, OverflowError) as error:
        raise DatasetFileError(path, str(error)) from error
    keys = np.unique(target[source != target] * num_nodes + source[source != target])
    return np.stack([keys % num_nodes, keys // num_nodes])


def _pairs(graph: Any) -> tuple[Array, Array]:
    if not isinstance(graph, dict) or not all(type(key) is int for key in graph):
        raise ValueError("it must hold the neighbours of each document")
    if not all(type(each) is list and all(type(node) is int for node in each) for each in graph.values()):
        raise ValueError("neighbours must be lists of documents")
    source = np.repeat(np.array(list(graph), np.int64), [len(each) for each in graph.values()])
    return source, np.array([node for each in graph.values() for node in each], np.int64)
