"""Folds of rows for training, validation and test: stratified and drawn with a seed, or read from a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TRAIN, VAL, TEST = range(3)
# Names of folds, as people write them.
_NAMES = {
    **dict.fromkeys(("train", "training", "tr", "fit"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev", "eval"), VAL),
    **dict.fromkeys(("test", "testing", "te", "holdout"), TEST),
}
SHARES = (0.8, 0.1, 0.1)
# Numeric targets are stratified into so many quantiles.
_QUANTILES = 10


def check_shares(shares: Sequence[float]) -> None:
    """Raises `ValueError` unless these are three shares above 0 that add up to 1."""
    if len(shares) != 3 or not all(share > 0 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"`shares` must be three numbers above 0 that add up to 1, got {list(shares)}")


def draw_folds(strata: Array, shares: Sequence[float] = SHARES, seed: int = 0) -> Array:
    """A fold for every row, (R,) -> (R,): 0 training, 1 validation, 2 test, each stratum divided by the shares.

    The same seed gives the same folds on every machine. Fractions of rows are carried from one stratum to the next, so
    that fold sizes differ from the shares by at most one row. Every stratum has at least one training row.

    >>> folds = draw_folds(np.array([0] * 50 + [1] * 10), (0.6, 0.2, 0.2))
    >>> [np.bincount(folds[rows], minlength=3).tolist() for rows in (slice(50), slice(50, 60))]
    [[30, 10, 10], [6, 2, 2]]
    """
    check_shares(shares)
    generator = np.random.default_rng(seed)
    folds = np.full(strata.size, TRAIN)
    bounds = np.cumsum(shares)[:2]
    done, placed = 0, np.zeros(2, np.int64)
    for stratum in np.unique(strata):
        rows = generator.permutation(np.flatnonzero(strata == stratum))
        done += rows.size
        wanted = np.floor(bounds * done + 0.5).astype(np.int64)
        train, first_two = np.clip(wanted - placed, (1, 1), rows.size)
        folds[rows[train : max(train, first_two)]] = VAL
        folds[rows[max(train, first_two) :]] = TEST
        placed += (train, max(train, first_two))
    return folds


def strata_of(y: Array, task: str) -> Array:
    """Strata of rows: classes, combinations of labels, where a missing one is a third value, or quantiles of numbers.

    Of several numbers the first one counts; rows without it are the last ones.

    Shapes: ``y`` (R,) or (R, T) -> (R,)
    """
    rows = y.reshape(len(y), -1)
    if task == "regression":
        ranks = np.argsort(np.argsort(rows[:, 0], kind="stable"), kind="stable")
        found: Array = ranks * min(_QUANTILES, len(rows)) // max(1, len(rows))
        return found
    codes = np.unique(np.nan_to_num(rows, nan=2), axis=0, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(codes)
    codes[counts[codes] < 3] = codes.max() + 1  # strata too small to divide are merged
    return codes


def parse_folds(column: Array) -> Array | None:
    """Parses a column of folds, (R,) -> (R, S), with -1 for empty cells; None if its values are no folds.

    Names of folds (train, valid, dev, test, ...) and the numbers 0, 1 and 2 give one column, S = 1. Numbers 0 to K - 1
    with K above 3 are K-fold cross-validation, S = K: in column k fold k is the test set and the next fold validation.

    >>> parse_folds(np.array(["train", "dev", "TEST", None], dtype=object)).T.tolist()
    [[0, 1, 2, -1]]
    >>> parse_folds(np.array([0, 1, 2, 3])).shape
    (4, 4)
    """
    if column.dtype == object:
        words = [None if cell is None else str(cell).strip().lower() for cell in column]
        if not {word for word in words if word is not None} <= set(_NAMES):
            return None
        return np.array([-1 if word is None else _NAMES[word] for word in words])[:, None]
    numbers = np.where(np.isnan(column.astype(float)), -1, column.astype(float))
    count = int(numbers.max(initial=-1)) + 1
    if not np.isin(numbers, np.arange(-1, count)).all() or not 1 < count <= 100:
        return None
    numbers = numbers.astype(np.int64)
    if count <= 3:
        return numbers[:, None]
    distance = (numbers[:, None] - np.arange(count)) % count
    divisions = np.select([distance == 0, distance == 1], [TEST, VAL], TRAIN)
    return np.where(numbers[:, None] < 0, -1, divisions)
