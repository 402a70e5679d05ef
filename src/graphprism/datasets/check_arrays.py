"""What the arrays of a packed data set must hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphprism.datasets.check_undirected import check_undirected
from graphprism.packed import Array, Arrays, check_rows, graph_sizes

LEVELS = ("graph", "node")
TASKS = ("regression", "multiclass", "multilabel")
# A table with a row per class must not dwarf the file; the largest set of classes here has 18.
_MOST_CLASSES = 1 << 20
_MASKS = ("train_mask", "val_mask", "test_mask")


def check_arrays(arrays: Arrays, about: dict[str, Any]) -> tuple[Array, Array]:
    """Raises `ValueError` with the first thing that does not hold: names, sizes, ranges, numbers that are none.

    Returns:
        Nodes and edges of each graph, (G,) and (G,).
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
    _check_y(arrays["y"], nodes.size if about["level"] == "graph" else int(nodes.sum()), about)
    if about["level"] == "graph":
        _check_split(arrays, nodes.size)
    else:
        _check_masks(arrays, int(nodes.sum()))
    return nodes, edges


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


def _check_y(y: Array, rows: int, about: dict[str, Any]) -> None:
    check_rows("y", y, rows)
    _check_finite("y", y)
    classes = about["task"] == "multiclass"
    if y.ndim != (1 if classes else 2) and not (about["level"] == "node" and y.ndim == 1):
        raise ValueError(f"`y` must have shape {[rows] if classes else [rows, 'T']}, got {list(y.shape)}")
    if classes and y.dtype.kind not in "iu":
        raise ValueError(f"`y` must hold classes, which are whole numbers, got {y.dtype}")
    if classes or about["task"] == "multilabel":
        _check_range("y", y, (about.get("num_classes") or _MOST_CLASSES) if classes else 2)


def _check_split(arrays: Arrays, rows: int) -> None:
    split = arrays.get("split")
    if split is None or split.shape != (rows,) or split.dtype.kind not in "iu":
        raise ValueError(f"`split` must hold 0, 1 or 2 for each of {rows} graphs")
    _check_range("split", split, 3)


def _check_masks(arrays: Arrays, rows: int) -> None:
    masks = [arrays.get(key) for key in _MASKS]
    present = [mask for mask in masks if mask is not None and mask.dtype.kind == "b" and mask.ndim == 2]
    if len(present) < len(_MASKS) or {mask.shape for mask in present} != {(rows, present[0].shape[1])}:
        raise ValueError(f"{', '.join(_MASKS)} must hold booleans of one shape [{rows}, S]")
    if np.sum([mask.astype(np.int8) for mask in present], axis=0).max(initial=0) > 1:
        raise ValueError(f"{', '.join(_MASKS)} must not share nodes within a split")
    for key, mask in zip(_MASKS, present, strict=True):
        if mask.shape[1] == 0 or not mask.any(axis=0).all():
            empty = int(np.argmin(mask.any(axis=0))) if mask.shape[1] else 0
            raise ValueError(f"`{key}` must hold a node in every split, got none in split {empty}")


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
