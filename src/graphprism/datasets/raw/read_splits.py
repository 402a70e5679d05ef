"""Published splits: numbers of nodes for training, validation and test, several times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphprism.datasets.dataset_file_error import DatasetFileError
from graphprism.datasets.raw.safe_object_array import safe_object_array
from graphprism.packed import Array, open_arrays

_PARTS = ("train", "valid", "test")
_MOST_SPLITS = 100


def read_splits(path: Path, num_nodes: int) -> tuple[Array, Array, Array]:
    """Reads numbers of nodes and gives three masks (N, S).

    A file that ends in ``.npz`` holds ``train``, ``valid`` and ``test`` as plain arrays (S, n), one row per split. One
    that ends in ``.npy`` is what Lim et al. publish: a pickled list of S dictionaries with these keys; of its pickle
    only arrays are let in.

    Raises:
        DatasetFileError: The file does not hold such splits.
    """
    try:
        splits = _rows(path) if path.suffix == ".npz" else safe_object_array(path)
        if not 1 <= len(splits) <= _MOST_SPLITS:
            raise ValueError(f"it must hold 1 to {_MOST_SPLITS} splits, got {len(splits)}")
        masks = np.zeros((3, num_nodes, len(splits)), bool)
        for column, split in enumerate(splits):
            for mask, part in zip(masks, _PARTS, strict=True):
                mask[_nodes(split, part, num_nodes), column] = True
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error
    train_mask, val_mask, test_mask = masks
    return train_mask, val_mask, test_mask


def _rows(path: Path) -> list[dict[str, Array]]:
    arrays = open_arrays(path, _PARTS)
    counts = {array.shape[0] if array.ndim == 2 else None for array in arrays.values()}
    if len(arrays) < len(_PARTS) or None in counts or len(counts) != 1:
        raise ValueError("it must hold `train`, `valid` and `test` of shape [S, n] with one number S of splits")
    return [dict(zip(_PARTS, rows, strict=True)) for rows in zip(*(arrays[part] for part in _PARTS), strict=True)]


def _nodes(split: Any, part: str, num_nodes: int) -> Array:
    if not isinstance(split, dict) or part not in split:
        raise ValueError(f"every split must name its nodes for {part!r}")
    found = split[part]
    # Lists of arrays are not put together: a small file can name one array many times.
    if not isinstance(found, np.ndarray) and not (isinstance(found, list) and all(type(node) is int for node in found)):
        raise ValueError(f"`{part}` must hold whole numbers, got something else")
    nodes = np.asarray(found).reshape(-1)
    if nodes.dtype.kind not in "iu" or nodes.size == 0:
        raise ValueError(f"`{part}` must hold whole numbers, got {nodes.size} of {nodes.dtype}")
    if nodes.min() < 0 or nodes.max() >= num_nodes:
        raise ValueError(f"`{part}` must hold numbers of nodes in [0, {num_nodes}), got {nodes.min()} to {nodes.max()}")
    return nodes
