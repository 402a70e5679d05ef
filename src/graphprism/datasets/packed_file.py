"""Packed files of data sets: atomic writes, checked reads, no code execution."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism._checks import check_path, check_type
from graphprism._files import whole_file
from graphprism.datasets.packed_dataset import MASKS, PackedDataset, as_weight
from graphprism.packed import Array, Arrays, check_rows, graph_sizes, open_arrays, parse_about


class DatasetFileError(ValueError):
    """A packed file cannot be used; the message names the file, the problem and what to do."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}; replace the file by a whole copy, or delete it and pack it again")
        self.path = path


def missing_classes(dataset: PackedDataset) -> str:
    """A warning about the first class without a training node, or an empty text; only for classes of nodes.

    Such a set is valid, and a model needs an output for that class, but cannot learn it.
    """
    if dataset.level != "node" or dataset.task != "multiclass" or dataset.train_mask is None:
        return ""
    shown = torch.zeros(dataset.num_outputs, dataset.train_mask.size(1), dtype=torch.bool)
    for column, mask in enumerate(dataset.train_mask.T):
        shown[dataset.y[mask].long(), column] = True
    there = dataset.y.long().bincount(minlength=len(shown)) > 0
    missing = (~shown & there[:, None]).T.nonzero()
    if not len(missing):
        return ""
    splits, (first, label) = missing[:, 0].unique().numel(), missing[0].tolist()
    return f"A class has no training node in {splits} of {shown.size(1)} splits, first class {label} in split {first}."


# Edges per block, so that intermediate results fit the cache.
_CHUNK = 1 << 15


def check_undirected(edge_index: Array, nodes: Array, edges: Array) -> None:
    r"""Raises `ValueError` for the first edge without its reverse edge, counted with multiplicity.

    With random 64-bit integers :math:`r_i, s_i` per node, :math:`\sum_{(i, j)} r_i s_j - r_j s_i` is zero for symmetric
    edges, and for about one in :math:`2^{60}` other graphs. That takes 3 ms for the 0.6 million edges of ZINC12k,
    against 60 ms by sorting; edges are sorted only to name the offending one.

    Shapes: ``edge_index`` (2, ΣE), ``nodes`` and ``edges`` (G,)
    """
    if edge_index.shape[1] == 0:
        return
    r, s = np.random.default_rng(0).integers(0, 1 << 64, (2, int(nodes.max())), np.uint64)
    difference = np.empty(edge_index.shape[1], np.uint64)
    for start in range(0, difference.size, _CHUNK):
        source, target = edge_index[:, start : start + _CHUNK].astype(np.intp)
        difference[start : start + _CHUNK] = r[source] * s[target] - r[target] * s[source]
    filled = edges > 0
    if np.add.reduceat(difference, (np.cumsum(edges) - edges)[filled]).any():
        raise ValueError(_first_one_way(edge_index, nodes, edges))


def _first_one_way(edge_index: Array, nodes: Array, edges: Array) -> str:
    offset = np.repeat(np.cumsum(nodes) - nodes, edges)
    (source, target), total = edge_index.astype(np.int64) + offset, int(nodes.sum())
    forth, back = source * total + target, target * total + source
    order = np.argsort(forth, kind="stable")
    # Running count of each edge among its duplicates; it has no reverse if the reverse occurs less often.
    first = np.searchsorted(forth[order], forth[order])
    rank = np.empty(forth.size, np.int64)
    rank[order] = np.arange(forth.size) - first
    ways = np.sort(back)
    ways_back = np.searchsorted(ways, forth, "right") - np.searchsorted(ways, forth)
    at = int(np.argmax(rank >= ways_back))
    graph = int(np.searchsorted(np.cumsum(edges), at, "right"))
    of = f" of graph {graph}" if nodes.size > 1 else ""
    return (
        "`edge_index` must hold the way back of every edge of a set that is not directed, got none for edge "
        f"{at}, {edge_index[0, at]} to {edge_index[1, at]}{of}"
    )


LEVELS = ("graph", "node", "link")
TASKS = ("regression", "binary", "multiclass", "multilabel")
# Bounds the memory of tables with a row per class; the largest set here has 18 classes.
_MOST_CLASSES = 1 << 20
_MASKS = ("train_mask", "val_mask", "test_mask")


def check_arrays(arrays: Arrays, about: dict[str, Any]) -> tuple[Array, Array]:
    """Raises `ValueError` for the first violation: names, shapes, ranges, NaN or infinity.

    NaN among several targets of a row is a missing one; a row must have another.

    Returns:
        Numbers of nodes and edges of each graph, (G,) and (G,).
    """
    _check_about(about)
    for key in ("x", "edge_index", "y"):
        if key not in arrays:
            raise ValueError(f"`{key}` is missing")
    nodes, edges = graph_sizes(arrays)
    _check_columns("x", arrays["x"], int(nodes.sum()), about.get("num_node_types"))
    if not about.get("directed", False):
        check_undirected(arrays["edge_index"], nodes, edges)
    if "edge_attr" in arrays:
        _check_columns("edge_attr", arrays["edge_attr"], int(edges.sum()), about.get("num_edge_types"))
    if "edge_weight" in arrays:
        _check_weight(arrays["edge_weight"], int(edges.sum()))
    rows = {"graph": nodes.size, "node": int(nodes.sum())}.get(about["level"]) or _check_pairs(arrays, nodes, about)
    _check_y(arrays["y"], rows, about)
    if about["level"] == "node":
        _check_masks(arrays, rows)
    else:
        _check_split(arrays, rows, "graphs" if about["level"] == "graph" else "pairs")
    if "node_ids" in arrays:
        _check_ids(arrays["node_ids"], int(nodes.sum()))
    return nodes, edges


def _check_pairs(arrays: Arrays, nodes: Array, about: dict[str, Any]) -> int:
    """Checks ``pairs`` and returns their number."""
    if nodes.size != 1 or about["task"] != "binary":
        raise ValueError(f"a set of links must be one graph with the task binary, got {nodes.size} and {about['task']}")
    pairs = arrays.get("pairs")
    if pairs is None or pairs.ndim != 2 or len(pairs) != 2 or not pairs.size or pairs.dtype.kind not in "iu":
        raise ValueError("`pairs` must hold whole numbers of shape [2, P], with P above 0")
    _check_range("pairs", pairs, int(nodes[0]))
    return int(pairs.shape[1])


def _check_ids(ids: Array, count: int) -> None:
    if ids.dtype != np.uint8 or ids.ndim != 1 or int((ids == 0).sum()) + 1 != count:
        raise ValueError(f"`node_ids` must hold {count} texts, bytes of UTF-8 that are separated by zeros")
    try:
        ids.tobytes().decode()
    except UnicodeDecodeError:
        raise ValueError("`node_ids` must hold texts in UTF-8") from None


def _check_about(about: dict[str, Any]) -> None:
    for key, allowed in (("level", LEVELS), ("task", TASKS)):
        if about.get(key) not in allowed:
            raise ValueError(f"`about` must name as {key} one of {list(allowed)}, got {about.get(key)!r}")
    for key in ("name", "metric"):
        if not isinstance(about.get(key), str) or not about[key]:
            raise ValueError(f"`about` must name the {key} of the set, got {about.get(key)!r}")
    if not isinstance(about.get("directed", False), bool):
        raise ValueError(f"`about` must say of directed true or false, got {about['directed']!r}")
    if type(about.get("num_classes", 0)) is not int or not 0 <= about.get("num_classes", 0) <= _MOST_CLASSES:
        wanted = f"a whole number up to {_MOST_CLASSES}"
        raise ValueError(f"`about` must give num_classes as {wanted}, got {about['num_classes']!r}")
    if not isinstance(about.get("preprocessing") or {}, dict):
        raise ValueError("`about` must give preprocessing as an object of JSON")


def _check_columns(key: str, array: Array, rows: int, num_types: object) -> None:
    check_rows(key, array, rows)
    if array.ndim != 2:
        raise ValueError(f"`{key}` must have shape [{rows}, F], got {list(array.shape)}")
    _check_finite(key, array)
    if num_types is None:
        return
    stops = num_types if isinstance(num_types, list | tuple) else [num_types]
    if not all(type(stop) is int and stop > 0 for stop in stops) or len(stops) != array.shape[1]:
        raise ValueError(f"`about` must give one number of types per column of `{key}`, got {num_types!r}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"`{key}` must hold types, which are whole numbers, got {array.dtype}")
    for column, stop in zip(array.T, stops, strict=True):
        _check_range(key, column, stop)


def _check_weight(weight: Array, edges: int) -> None:
    if weight.shape != (edges,):
        raise ValueError(f"`edge_weight` must have shape [{edges}], got {list(weight.shape)}")
    check_rows("edge_weight", weight, edges)
    _check_finite("edge_weight", weight)


def _check_y(y: Array, rows: int, about: dict[str, Any]) -> None:
    check_rows("y", y, rows)
    if about["task"] in ("regression", "multilabel") and y.ndim == 2 and y.shape[1] > 1 and y.dtype.kind == "f":
        missing = np.isnan(y)
        if missing.all(1).any():
            raise ValueError(f"`y` must have a target in every row, got none in row {int(missing.all(1).argmax())}")
        y = np.where(missing, 0, y)  # of several targets some may be missing
    _check_finite("y", y)
    classes = about["task"] == "multiclass"
    if y.ndim != (1 if classes else 2) and not (about["level"] == "node" and y.ndim == 1):
        raise ValueError(f"`y` must have shape {[rows] if classes else [rows, 'T']}, got {list(y.shape)}")
    if classes and y.dtype.kind not in "iu":
        raise ValueError(f"`y` must hold classes, which are whole numbers, got {y.dtype}")
    if about["task"] == "binary" and y.ndim == 2 and y.shape[1] != 1:
        raise ValueError(f"`y` must have one column for the task binary, got {y.shape[1]}")
    if about["task"] != "regression":
        _check_range("y", y, (about.get("num_classes") or _MOST_CLASSES) if classes else 2)


def _check_split(arrays: Arrays, rows: int, what: str) -> None:
    split = arrays.get("split")
    if split is None or split.shape != (rows,) or split.dtype.kind not in "iu":
        raise ValueError(f"`split` must hold 0, 1 or 2 for each of {rows} {what}")
    _check_range("split", split, 3)


def _check_masks(arrays: Arrays, rows: int) -> None:
    masks = [arrays.get(key) for key in _MASKS]
    present = [mask for mask in masks if mask is not None and mask.dtype.kind == "b" and mask.ndim == 2]
    if len(present) < len(_MASKS) or {mask.shape for mask in present} != {(rows, present[0].shape[1])}:
        raise ValueError(f"{', '.join(_MASKS)} must hold booleans of one shape [{rows}, S]")
    if np.sum([mask.astype(np.int8) for mask in present], axis=0).max(initial=0) > 1:
        raise ValueError(f"{', '.join(_MASKS)} must not share nodes within a fold")
    for key, mask in zip(_MASKS, present, strict=True):
        if mask.shape[1] == 0 or not mask.any(axis=0).all():
            empty = int(np.argmin(mask.any(axis=0))) if mask.shape[1] else 0
            raise ValueError(f"`{key}` must hold a node in every fold, got none in fold {empty}")


def _check_finite(key: str, array: Array) -> None:
    if array.dtype.kind == "f" and not bool(np.isfinite(array).all()):
        count = int((~np.isfinite(array)).sum())
        raise ValueError(f"`{key}` must hold finite numbers, got {count} NaN or infinite among {array.size}")


def _check_range(key: str, array: Array, stop: int | None) -> None:
    if array.size == 0:
        return
    low, high = array.min(), array.max()
    if low < 0 or (stop is not None and high >= stop):
        wanted = "that are not negative" if stop is None else f"in [0, {stop})"
        raise ValueError(f"`{key}` must hold numbers {wanted}, got {low if low < 0 else high}")


# In the order of the checksum: a new one comes last.
_KEYS = (
    *("x", "edge_index", "edge_attr", "num_nodes", "num_edges", "y", "split", *MASKS, "pairs", "node_ids"),
    "edge_weight",
)
# Integers from here on are features, not types: an embedding table for them would be larger than the network.
_MOST_TYPES = 1000
# torch has few ops for unsigned integers above 8 bits, and loses precision in sums of half precision.
_TORCH_TYPES = {"u2": np.int32, "u4": np.int64, "u8": np.int64, "f2": np.float32}


def save(dataset: PackedDataset, path: str | Path) -> None:
    """Writes a data set to ``path`` atomically, with a checksum.

    Raises:
        ValueError: The data set is invalid; nothing is written.
        OSError: It cannot be written.
    """
    check_type("dataset", dataset, PackedDataset, "a PackedDataset")
    check_path("path", path)
    arrays, about = _to_arrays(dataset)
    check_arrays(arrays, about)
    about["sha256"] = _checksum(arrays, about)
    with whole_file(Path(path), "data sets") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]


def read(path: str | Path, defaults: dict[str, Any] | None = None) -> PackedDataset:
    """Reads a packed file and checks sizes, ranges and, if the file has one, its checksum.

    Args:
        path: The file.
        defaults: Fields of ``about`` that the file may lack.

    Raises:
        FileNotFoundError: There is no such file.
        DatasetFileError: The file is damaged or does not hold a data set.
    """
    check_path("path", path)
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
    fields = parse_about(about)
    if fields is None:
        raise ValueError("`about` must be JSON with name, level, task and metric")
    return fields


def _checksum(arrays: Arrays, about: dict[str, Any]) -> str:
    """SHA-256 of ``about`` and of the dtype, shape and values of each array."""
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
    if dataset.preprocessing is not None:
        about["preprocessing"] = dataset.preprocessing
    tensors = {key: getattr(dataset, key, None) for key in _KEYS}
    arrays = {key: _smallest(tensor) for key, tensor in tensors.items() if isinstance(tensor, Tensor)}
    arrays["num_nodes"] = _smallest(dataset.node_ptr.diff())
    arrays["num_edges"] = _smallest(dataset.edge_ptr.diff())
    return arrays, about


def _smallest(tensor: Tensor) -> Array:
    """Integers in the smallest dtype that holds them; other arrays unchanged."""
    array: Array = tensor.cpu().numpy()
    if array.dtype.kind not in "iu" or array.size == 0:
        return array
    low, high = int(array.min()), int(array.max())
    kind = "i" if low < 0 else "u"
    fitting = (f"{kind}{size}" for size in (1, 2, 4, 8) if np.iinfo(f"{kind}{size}").max >= max(high, -low - 1))
    return array.astype(next(fitting))


def _from_arrays(arrays: Arrays, about: dict[str, Any], nodes: Array, edges: Array) -> PackedDataset:
    folds = {"graph": ("split",), "node": MASKS, "link": ("split", "pairs")}[about["level"]]
    keys = ("x", "edge_index", "edge_attr", "y", *folds, "node_ids", "edge_weight")
    tensors: dict[str, Any] = {key: _tensor(arrays[key]) for key in keys if key in arrays}
    if "edge_weight" in tensors:  # of a file that others wrote, weights may be whole numbers
        tensors["edge_weight"] = as_weight(tensors["edge_weight"])
    if about["level"] == "graph":
        about = _with_types(about, tensors)
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
        preprocessing=about.get("preprocessing"),
    )


def _with_types(about: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """Infers numbers of types that the file lacks: at graph level small integers are types, large ones features."""
    found = dict(about)
    for key, name in (("x", "num_node_types"), ("edge_attr", "num_edge_types")):
        tensor = tensors.get(key)
        if tensor is None or tensor.is_floating_point() or about.get(name) is not None or not tensor.numel():
            continue
        if int(tensor.min()) >= 0 and int(tensor.max()) < _MOST_TYPES:
            found[name] = [int(top) + 1 for top in tensor.amax(0)]
        else:
            tensors[key] = tensor.float()
    return found


def _tensor(array: Array) -> Tensor:
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    wanted = _TORCH_TYPES.get(native.dtype.str[1:], native.dtype)
    return torch.from_numpy(native.astype(wanted, copy=False))


def _types(number: int | list[int] | None) -> tuple[int, ...]:
    if number is None:
        return ()
    return tuple(number) if isinstance(number, list | tuple) else (number,)
