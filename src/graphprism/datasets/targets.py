"""Columns of targets, encoded as numbers, and the task that they imply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism._checks import check_choice
from graphprism.datasets.preprocessing import ColumnCode, PerTarget
from graphprism.io.columns import as_text, stray_text

Array = npt.NDArray[Any]

# Default metric of each task.
METRIC_OF = {"regression": "mae", "binary": "auroc", "multiclass": "accuracy", "multilabel": "ap"}
# Integers with more distinct values than this are a regression target, with fewer classes.
_MOST_CLASSES = 50
# In tables of up to so many rows every text may be a class.
_FEW_ROWS = 10


@dataclass(frozen=True, eq=False)
class EncodedTarget:
    """Targets as numbers.

    Attributes:
        task: A name of `METRIC_OF`.
        y: (R,) classes of a multi-class task, else (R, T); NaN where some of the targets of a row are missing, 0 where
            all are.
        known: (R,) mask of rows with a target, of several with at least one.
        classes: Names of the classes of a binary or multi-class task.
    """

    task: str
    y: Array
    known: Array
    classes: tuple[str, ...] = ()


def encode_target(
    columns: Sequence[Array],
    task: str | None,
    what: str,
    names: Sequence[str] | None = None,
    positive: str | None = None,
) -> EncodedTarget:
    """Infers the task of one or several columns, (R,) each, and encodes them as numbers.

    Two distinct values: binary. More: multi-class. Fractions, however few, or very many values: regression. Several
    columns of 0 and 1: multi-label. Texts of which most occur once are refused: they are no classes.

    Args:
        columns: Of equal length.
        task: A name of `METRIC_OF`, or None to infer it.
        what: Name of the target in error messages.
        names: Names of the columns in error messages; by default their numbers, or ``what`` if there is one column.
        positive: The value of a binary target that becomes 1; by default the second one.

    Raises:
        ValueError: The columns cannot be the target of that task.

    >>> found = encode_target([np.array(["no", "yes", None], dtype=object)], None, "the target 'sick'")
    >>> found.task, found.y.T.tolist(), found.known.tolist(), found.classes
    ('binary', [[0.0, 1.0, 0.0]], [True, True, False], ('no', 'yes'))
    """
    if task is not None:
        check_choice("task", task, tuple(METRIC_OF))
    given = [_is_given(column) for column in columns]
    known = np.any(given, axis=0)
    if not known.any():
        raise ValueError(f"{what} must have a value in some rows, got none")
    if names is None:
        names = [what] if len(columns) == 1 else [f"column {number} of {what}" for number in range(len(columns))]
    present = [column[here] for column, here in zip(columns, given, strict=True)]
    if task is None and len(columns) == 1:
        _check_texts_repeat(names[0], columns[0], present[0])
    task = task or _find_task([column for column in present if column.size], len(columns) > 1)
    for name, column in zip(names, present, strict=True):
        found = np.unique(as_text(column).astype(str))
        if found.size < 2 and not (task == "multilabel" and len(columns) > 1):
            came = f"{str(found[0])!r} in all {column.size} rows" if found.size else "none"
            raise ValueError(f"{name} must have at least two values, got {came}")
    if positive is not None and task != "binary":
        raise ValueError(f"`positive` must be left out with a target of the task {task}, got {positive!r}")
    if task in ("regression", "multilabel"):
        return _numbers(columns, task, given, names)
    if len(columns) > 1:
        raise ValueError(f"{what} must be one column for the task {task}, got {len(columns)}")
    code = ColumnCode.fit("", columns[0][known], known[known], category=True)
    numbers = np.where(known, code.codes(columns[0]), 0)
    if task == "binary":
        if len(code.values) != 2:
            raise ValueError(f"{what} must have two values for the task binary, got {len(code.values)}")
        if positive is not None:
            check_choice("positive", positive, code.values)
        if positive == code.values[0]:
            return EncodedTarget(
                task, np.where(known, 1.0 - numbers, 0).astype(np.float32)[:, None], known, code.values[::-1]
            )
        return EncodedTarget(task, numbers.astype(np.float32)[:, None], known, code.values)
    return EncodedTarget(task, numbers, known, code.values)


def _is_given(column: Array) -> Array:
    if column.dtype == object:
        return np.array([cell is not None for cell in column], dtype=bool)
    found: Array = np.isfinite(column) if column.dtype.kind == "f" else np.ones(column.size, dtype=bool)
    return found


def _check_texts_repeat(name: str, column: Array, present: Array) -> None:
    """Raises for texts that hardly ever occur twice: numbers in another notation, names or dates, not classes."""
    if column.dtype != object or present.size <= _FEW_ROWS:
        return
    distinct = len(set(present.tolist()))
    if distinct > present.size // 2:
        row, text = stray_text(column)
        raise ValueError(
            f"{name} must hold numbers, such as 1234.5, or words that occur again, got {distinct:,} different texts in "
            f"{present.size:,} rows, such as {text!r} in row {row} (the task multiclass takes each for a class)"
        )


def _find_task(columns: Sequence[Array], several: bool) -> str:
    if several:
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


def _numbers(columns: Sequence[Array], task: str, given: Sequence[Array], names: Sequence[str]) -> EncodedTarget:
    known, numbers = np.any(given, axis=0), []
    for name, column, here in zip(names, columns, given, strict=True):
        if column.dtype == object and here.any():  # a column of empty cells alone is one of objects, too
            row, text = stray_text(column)
            raise ValueError(f"{name} must hold numbers for the task {task}, got {text!r} in row {row}")
        if task == "multilabel" and not np.isin(column[here], (0, 1)).all():
            raise ValueError(f"{name} must hold 0 and 1 for the task multilabel, got {column[here].max():g}")
        numbers.append(np.where(known, np.nan, 0.0))
        numbers[-1][here] = column[here]
    return EncodedTarget(task, np.stack(numbers, 1).astype(np.float32), known)


def known_entries(y: Array) -> Array:
    """The entries that are not missing, as a vector."""
    found: Array = y[~np.isnan(y)]
    return found


def standardised(target: EncodedTarget, train: Array) -> tuple[EncodedTarget, PerTarget, PerTarget]:
    """A numeric target with mean 0 and deviation 1 on the training rows, and the mean and deviation it had there.

    Each of several targets has its own. Missing targets stay missing and count in neither.
    """
    columns, means, scales = [], [], []
    for column in target.y.T:
        seen = known_entries(column[train])
        mean, scale = (float(seen.mean()), float(seen.std()) or 1.0) if seen.size else (0.0, 1.0)
        columns.append(np.where(target.known, (column - mean) / scale, 0).astype(np.float32))
        means.append(mean)
        scales.append(scale)
    found = replace(target, y=np.stack(columns, 1))
    return (found, means[0], scales[0]) if len(means) == 1 else (found, tuple(means), tuple(scales))
