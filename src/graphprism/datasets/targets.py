"""Columns of targets, encoded as numbers, and the task that they imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism._checks import check_choice
from graphprism.datasets.preprocessing import ColumnCode
from graphprism.io.columns import as_text, stray_text

Array = npt.NDArray[Any]

# Default metric of each task.
METRIC_OF = {"regression": "mae", "binary": "auroc", "multiclass": "accuracy", "multilabel": "ap"}
# Integers with more distinct values than this are a regression target, with fewer classes.
_MOST_CLASSES = 50


@dataclass(frozen=True, eq=False)
class EncodedTarget:
    """Targets as numbers.

    Attributes:
        task: A name of `METRIC_OF`.
        y: (R,) classes of a multi-class task, else (R, T); 0 where the target is missing.
        known: (R,) mask of rows with a target.
        classes: Names of the classes of a binary or multi-class task.
    """

    task: str
    y: Array
    known: Array
    classes: tuple[str, ...] = ()


def encode_target(
    columns: Sequence[Array], task: str | None, what: str, names: Sequence[str] | None = None
) -> EncodedTarget:
    """Infers the task of one or several columns, (R,) each, and encodes them as numbers.

    Two distinct values: binary. More: multi-class. Fractions, however few, or very many values: regression. Several
    columns of 0 and 1: multi-label.

    Args:
        columns: Of equal length.
        task: A name of `METRIC_OF`, or None to infer it.
        what: Name of the target in error messages.
        names: Names of the columns in error messages; by default their numbers, or ``what`` if there is one column.

    Raises:
        ValueError: The columns cannot be the target of that task.

    >>> found = encode_target([np.array(["no", "yes", None], dtype=object)], None, "the target 'sick'")
    >>> found.task, found.y.T.tolist(), found.known.tolist(), found.classes
    ('binary', [[0.0, 1.0, 0.0]], [True, True, False], ('no', 'yes'))
    """
    if task is not None:
        check_choice("task", task, tuple(METRIC_OF))
    known = np.all([_is_given(column) for column in columns], axis=0)
    if not known.any():
        raise ValueError(f"{what} must have a value in some rows, got none")
    task = task or _find_task([column[known] for column in columns])
    if names is None:
        names = [what] if len(columns) == 1 else [f"column {number} of {what}" for number in range(len(columns))]
    for name, column in zip(names, columns, strict=True):
        found = np.unique(as_text(column[known]).astype(str))
        if found.size < 2 and not (task == "multilabel" and len(columns) > 1):
            raise ValueError(
                f"{name} must have at least two values, got {str(found[0])!r} in all {int(known.sum())} rows"
            )
    if task in ("regression", "multilabel"):
        return _numbers(columns, task, known, names)
    if len(columns) > 1:
        raise ValueError(f"{what} must be one column for the task {task}, got {len(columns)}")
    code = ColumnCode.fit("", columns[0][known], known[known], category=True)
    numbers = np.where(known, code.codes(columns[0]), 0)
    if task == "binary":
        if len(code.values) != 2:
            raise ValueError(f"{what} must have two values for the task binary, got {len(code.values)}")
        return EncodedTarget(task, numbers.astype(np.float32)[:, None], known, code.values)
    return EncodedTarget(task, numbers, known, code.values)


def _is_given(column: Array) -> Array:
    if column.dtype == object:
        return np.array([cell is not None for cell in column], dtype=bool)
    found: Array = np.isfinite(column) if column.dtype.kind == "f" else np.ones(column.size, dtype=bool)
    return found


def _find_task(columns: Sequence[Array]) -> str:
    if len(columns) > 1:
        labels = all(column.dtype != object and np.isin(column, (0, 1)).all() for column in columns)
        return "multilabel" if labels else "regression"
    (column,) = columns
    if column.dtype == object or column.dtype.kind == "b":
        return "binary" if len(set(column.tolist())) == 2 else "multiclass"
    values = np.unique(column)
    if not np.equal(values, np.floor(values)).all():
        return "regression"
    if values.size == 2:
        return "binary"
    return "multiclass" if values.size <= min(_MOST_CLASSES, column.size // 2) else "regression"


def _numbers(columns: Sequence[Array], task: str, known: Array, names: Sequence[str]) -> EncodedTarget:
    for name, column in zip(names, columns, strict=True):
        if column.dtype == object:
            row, text = stray_text(column)
            raise ValueError(f"{name} must hold numbers for the task {task}, got {text!r} in row {row}")
        if task == "multilabel" and not np.isin(column[known], (0, 1)).all():
            raise ValueError(f"{name} must hold 0 and 1 for the task multilabel, got {column[known].max():g}")
    y = np.stack([np.where(known, column.astype(np.float64), 0.0) for column in columns], 1)
    return EncodedTarget(task, y.astype(np.float32), known)


def standardised(target: EncodedTarget, train: Array) -> tuple[EncodedTarget, float, float]:
    """A numeric target with mean 0 and deviation 1 on the training rows, and the mean and deviation it had there."""
    seen = target.y[train]
    mean, scale = (float(seen.mean()), float(seen.std()) or 1.0) if seen.size else (0.0, 1.0)
    y = np.where(target.known[:, None], (target.y - mean) / scale, 0).astype(np.float32)
    return replace(target, y=y), mean, scale
