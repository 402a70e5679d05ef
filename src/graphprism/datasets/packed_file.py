"""Data sets in packed files: written whole or not at all, read without executing anything, checked."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.datasets.check_arrays import check_arrays
from graphprism.datasets.dataset_file_error import DatasetFileError
from graphprism.datasets.missing_classes import missing_classes
from graphprism.datasets.packed_dataset import MASKS, PackedDataset
from graphprism.packed import Array, Arrays, open_arrays

_KEYS = ("x", "edge_index", "edge_attr", "num_nodes", "num_edges", "y", "split", *MASKS)
# torch does little with unsigned numbers above eight bits, and rounds half precision when it adds.
_TORCH_TYPES = {"u2": np.int32, "u4": np.int64, "u8": np.int64, "f2": np.float32}


def save(dataset: PackedDataset, path: str | Path) -> None:
    """Writes a data set to ``path`` with a checksum; whoever reads meanwhile finds the old file or the new one.

    Raises:
        ValueError: The set does not hold what a packed file must hold; nothing is written.
    """
    arrays, about = _to_arrays(dataset)
    check_arrays(arrays, about)
    about["sha256"] = _checksum(arrays, about)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    half_written = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with half_written.open("xb") as file:
            np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(half_written, path)
    finally:
        half_written.unlink(missing_ok=True)


def read(path: str | Path, defaults: dict[str, Any] | None = None) -> PackedDataset:
    """Reads a packed file and checks sizes, ranges and, where the file holds one, its checksum.

    Args:
        path: The file.
        defaults: Fields of ``about`` for a file that does not have them.

    Raises:
        FileNotFoundError: There is no such file.
        DatasetFileError: The file is damaged or does not hold a data set.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        arrays = open_arrays(path, ("about", *_KEYS))
        about = _parse(arrays.pop("about", None))
        stored = about.pop("sha256", "")
        if stored and stored != _checksum(arrays, about):
            raise ValueError("the checksum is not that of the arrays")
        about = {"name": path.stem, **(defaults or {}), **about}
        nodes, edges = check_arrays(arrays, about)
    except ValueError as error:
        raise DatasetFileError(path, str(error)) from error
    dataset = _from_arrays(arrays, about, nodes, edges)
    warning = missing_classes(dataset)
    note = dataset.note if warning in dataset.note else f"{dataset.note} {warning}".strip()
    return replace(dataset, sha256=stored, note=note)


def _parse(about: Array | None) -> dict[str, Any]:
    try:
        fields = json.loads(str(about))
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("`about` must be JSON with name, level, task and metric")
    return fields


def _checksum(arrays: Arrays, about: dict[str, Any]) -> str:
    """sha256 of what is said about the set, and of type, shape and numbers of each array."""
    total = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for key in (key for key in _KEYS if key in arrays):
        array = np.ascontiguousarray(arrays[key])
        total.update(f"{key} {array.dtype.str} {array.shape}".encode())
        total.update(array.data if array.size else b"")
    return total.hexdigest()


def _to_arrays(dataset: PackedDataset) -> tuple[Arrays, dict[str, Any]]:
    about: dict[str, Any] = {key: getattr(dataset, key) for key in ("name", "level", "task", "metric", "directed")}
    for key, types in (("num_node_types", dataset.node_types), ("num_edge_types", dataset.edge_types)):
        if types:
            about[key] = types[0] if len(types) == 1 else list(types)
    if dataset.num_classes:
        about["num_classes"] = dataset.num_classes
    if dataset.note:
        about["note"] = dataset.note
    tensors = {key: getattr(dataset, key, None) for key in _KEYS}
    arrays = {key: _smallest(tensor) for key, tensor in tensors.items() if isinstance(tensor, Tensor)}
    arrays["num_nodes"] = _smallest(dataset.node_ptr.diff())
    arrays["num_edges"] = _smallest(dataset.edge_ptr.diff())
    return arrays, about


def _smallest(tensor: Tensor) -> Array:
    """Whole numbers in the smallest type that holds them; everything else as it is."""
    array: Array = tensor.cpu().numpy()
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    kind = "i" if low < 0 else "u"
    fitting = (f"{kind}{size}" for size in (1, 2, 4, 8) if np.iinfo(f"{kind}{size}").max >= max(high, -low - 1))
    return array.astype(next(fitting))


def _from_arrays(arrays: Arrays, about: dict[str, Any], nodes: Array, edges: Array) -> PackedDataset:
    keys = ("x", "edge_index", "edge_attr", "y", *(("split",) if about["level"] == "graph" else MASKS))
    tensors: dict[str, Any] = {key: _tensor(arrays[key]) for key in keys if key in arrays}
    return PackedDataset(
        **{key: about[key] for key in ("name", "level", "task", "metric")},
        **tensors,
        node_ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(nodes)])),
        edge_ptr=torch.from_numpy(np.concatenate([[0], np.cumsum(edges)])),
        node_types=_types(about.get("num_node_types")),
        edge_types=_types(about.get("num_edge_types")),
        directed=bool(about.get("directed", False)),
        note=str(about.get("note", "")),
        num_classes=about.get("num_classes", 0),
    )


def _tensor(array: Array) -> Tensor:
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    wanted = _TORCH_TYPES.get(native.dtype.str[1:], native.dtype)
    return torch.from_numpy(native.astype(wanted, copy=False))


def _types(number: int | list[int] | None) -> tuple[int, ...]:
    if number is None:
        return ()
    return tuple(number) if isinstance(number, list | tuple) else (number,)
