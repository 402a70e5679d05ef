"""Paths of raw files, and folds and classes that several readers share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.pickled_numbers import NUMBERS
from graphprism.datasets.raw.torch_file import parse_pickle
from graphprism.known import DATASETS
from graphprism.packed import Array, open_arrays


def raw_file(name: str, folder: Path, file: str) -> Path:
    """The path of a raw file of a known set.

    Raises:
        FileNotFoundError: It is missing; the message says where to download it and where to put it.
    """
    path = folder / file
    if not path.is_file():
        raise FileNotFoundError(
            f"{name}: {path} is missing; put {file} into {folder} (it is published at {DATASETS[name].address}), "
            f"or {name}.npz beside the other packed files"
        )
    return path


def random_splits(labelled: Array, count: int) -> tuple[Array, Array, Array]:
    """Half of the labelled nodes for training, a quarter each for validation and test: (N,) -> three masks (N, count).

    Fold s depends on seed s only.
    """
    nodes = np.flatnonzero(labelled)
    ends = [len(nodes) // 2, len(nodes) // 2 + len(nodes) // 4]
    masks = np.zeros((3, len(labelled), count), bool)
    for column in range(count):
        parts = np.split(np.random.default_rng(column).permutation(nodes), ends)
        for mask, part in zip(masks, parts, strict=True):
            mask[part, column] = True
    train_mask, val_mask, test_mask = masks
    return train_mask, val_mask, test_mask


def quantile_labels(values: Array, num_classes: int) -> Array:
    r"""Bins values (N,) into classes (N,) of about equal size, at their quantiles.

    .. math:: y_i = |\{k \in 1 \dots C - 1 : v_i \ge q_{k / C}\}|

    where :math:`q_p` is the :math:`p`-quantile of all values, linearly interpolated. A value on a boundary belongs to
    the class above it; NaN is ignored by the quantiles and gets class -1.

    >>> quantile_labels(np.array([2001, 2002, 2002, 2003, 2004]), 5)
    array([0, 2, 2, 3, 4])
    """
    known = ~np.isnan(values)
    if values.ndim != 1 or not known.any():
        raise ValueError(f"`values` must hold numbers in shape [N], got shape {list(values.shape)}")
    bounds = np.quantile(values[known], np.arange(1, num_classes) / num_classes)
    return np.where(known, np.searchsorted(bounds, values, side="right"), -1)


_MAGIC = b"\x93NUMPY"
# Bytes of the length of the header, by version of the format.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_LONGEST_HEADER = 10_000
_DTYPE = re.compile(rb"'descr': *'([<>|=]?)([A-Za-z]\d{0,3})'")


def safe_object_array(path: Path) -> list[Any]:
    """Reads an .npy file of objects: only dictionaries and lists of arrays and tensors, returned as arrays.

    Raises:
        ValueError: It is no such file, or holds anything else; nothing in it was executed.
    """
    content = path.read_bytes()
    found = parse_pickle(content[_header_size(content) :])
    return found if isinstance(found, list) else [found]


def _header_size(content: bytes) -> int:
    """Number of bytes before the pickle; the header is matched by a pattern, not evaluated."""
    width = _LENGTH_BYTES.get(content[6] if len(content) > 6 else 0)
    if not content.startswith(_MAGIC) or width is None:
        raise ValueError("the file is damaged, it does not begin with the magic bytes of an .npy file")
    size = 8 + width + int.from_bytes(content[8 : 8 + width], "little")
    dtype = _DTYPE.search(content, 8 + width, min(size, _LONGEST_HEADER))
    if dtype is None or size > len(content):
        raise ValueError("the file is damaged, it has no header of an .npy file")
    name = dtype[2].decode()
    if name != "O":
        raise ValueError(f"it must hold objects, got {np.dtype(name) if name in NUMBERS else name}")
    return size


_PARTS = ("train", "valid", "test")
_MOST_SPLITS = 100


def read_splits(path: Path, num_nodes: int) -> tuple[Array, Array, Array]:
    """Reads node indices of folds and returns three masks (N, S).

    An ``.npz`` file holds ``train``, ``valid`` and ``test`` as plain arrays (S, n), one row per fold. An ``.npy`` file
    is in the format of Lim et al.: a pickled list of S dictionaries with these keys; only arrays are accepted in it.

    Raises:
        DatasetFileError: The file does not hold such folds.
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
    # Lists of arrays are not concatenated: a small file can reference one array many times.
    if not isinstance(found, np.ndarray) and not (isinstance(found, list) and all(type(node) is int for node in found)):
        raise ValueError(f"`{part}` must hold whole numbers, got something else")
    nodes = np.asarray(found).reshape(-1)
    if nodes.dtype.kind not in "iu" or nodes.size == 0:
        raise ValueError(f"`{part}` must hold whole numbers, got {nodes.size} of {nodes.dtype}")
    if nodes.min() < 0 or nodes.max() >= num_nodes:
        raise ValueError(f"`{part}` must hold numbers of nodes in [0, {num_nodes}), got {nodes.min()} to {nodes.max()}")
    return nodes
