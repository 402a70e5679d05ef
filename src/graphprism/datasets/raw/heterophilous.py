"""Directed graphs in the files of the heterophilous benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from graphprism.datasets.packed_dataset import PackedDataset, pack_nodes
from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.raw_file import raw_file
from graphprism.known import DATASETS
from graphprism.packed import Array, Arrays, open_arrays

_MASKS = ("train_masks", "val_masks", "test_masks")
_KEYS = ("node_features", "node_labels", "edges", *_MASKS)


def heterophilous(name: str, folder: Path) -> PackedDataset:
    """Reads the one .npz file of a set: features (N, F), labels (N,), edges (E, 2) and three masks (S, N).

    Edges keep their direction, which PyG's loader of this benchmark drops.

    Raises:
        FileNotFoundError: The file is missing.
        DatasetFileError: The file does not hold these arrays.
    """
    known = DATASETS[name]
    path = raw_file(name, folder, known.files[0])
    try:
        arrays = open_arrays(path, _KEYS)
        _check(arrays)
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error
    train_mask, val_mask, test_mask = (_rows_to_columns(arrays[key]) for key in _MASKS)
    return pack_nodes(
        name,
        known,
        torch.from_numpy(arrays["node_features"]),
        torch.from_numpy(np.ascontiguousarray(arrays["edges"].T)),
        torch.from_numpy(arrays["node_labels"]),
        (train_mask, val_mask, test_mask),
    )


def _check(arrays: Arrays) -> None:
    for key in _KEYS:
        if key not in arrays:
            raise ValueError(f"`{key}` is missing")
    features, edges = arrays["node_features"], arrays["edges"]
    if features.ndim != 2:
        raise ValueError(f"`node_features` must have shape [N, F], got {list(features.shape)}")
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"`edges` must have shape [E, 2], got {list(edges.shape)}")
    for key in _MASKS:
        if arrays[key].ndim != 2 or arrays[key].shape[1] != len(features):
            raise ValueError(f"`{key}` must have shape [S, {len(features)}], got {list(arrays[key].shape)}")


def _rows_to_columns(mask: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(mask.T)).bool()
