"""Which rows of a matrix point the same way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism._checks import check_no_nan, check_shape

DIRECTION_TOLERANCE = 1e-9
# Every whole number up to this one is a float64, and sums below it are exact.
_LARGEST_EXACT = 2.0**53

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


def direction_groups(
    in_degrees: Tensor, batch: Tensor | None = None, *, tolerance: float = DIRECTION_TOLERANCE
) -> Tensor:
    r"""Numbers the directions of the rows, graph by graph: two rows share a number iff they are linearly dependent.

    Rows that are parallel or antiparallel get the same number if they are of the same graph; rows of zeros get -1.

    Whole numbers are compared exactly: a row divided by the greatest common divisor of its entries, with its first
    entry positive, is one of a kind. Other rows are compared through the entries of

    .. math:: P(\mathbf{d}) = \mathbf{d} \mathbf{d}^\top / \lVert \mathbf{d} \rVert^2,

    which depend continuously on the direction alone, so that no rounding can tear a group apart: rows whose entries
    of :math:`P` differ by at most ``tolerance`` are *always* in one group. So are rows that a chain of such
    neighbours joins. Groups may thus be too large, never too small: a certificate built on them claims too little
    rather than too much.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (N,) long. Time: a few sorts of N rows.

    >>> direction_groups(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [0.0, 0.0], [-2.0, -1.0]])).tolist()
    [0, 0, 1, -1, 0]
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    check_no_nan("in_degrees", in_degrees)
    rows = in_degrees.detach().cpu().double().numpy()
    kept = np.flatnonzero(rows.any(axis=1))
    graphs = np.zeros(kept.size, np.int64) if batch is None else batch.detach().cpu().long().numpy()[kept]
    groups = np.full(len(rows), -1, np.int64)
    if kept.size:
        groups[kept] = _by_first_appearance(_number_directions(rows[kept], graphs, tolerance))
    return torch.from_numpy(groups)


def _number_directions(rows: _Floats, graphs: _Integers, tolerance: float) -> _Integers:
    if bool((np.abs(rows) < _LARGEST_EXACT).all()) and bool((rows == np.rint(rows)).all()):
        return _number_exactly([graphs, *_primitive(rows.astype(np.int64)).T])
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    # Few directions are shared by many nodes as a rule: compare each bit pattern once.
    pattern = _number_exactly([graphs, *scaled.T.copy().view(np.int64)])
    first = first_rows(pattern)
    return _number_neighbours(scaled[first], graphs[first], tolerance)[pattern]


def _primitive(rows: _Integers) -> _Integers:
    """The shortest whole vector on the line through each row, with its first entry that is not 0 made positive."""
    divisor = np.gcd.reduce(rows, axis=1)
    leading = np.take_along_axis(rows, (rows != 0).argmax(axis=1, keepdims=True), axis=1)[:, 0]
    primitive: _Integers = rows // (divisor * np.sign(leading))[:, None]
    return primitive


def _number_exactly(columns: list[_Integers]) -> _Integers:
    """Numbers the distinct rows of a table; rows are packed into one key where the spans of the columns allow it."""
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low, high = (int(column.min()), int(column.max()))
        span = high - low + 1
        if size * span >= 1 << 62:
            key, size = _compressed(key)
        if size * span >= 1 << 62:
            column, span = _compressed(column)
            low = 0
        key, size = key * span + (column - low), size * span
    return _compressed(key)[0]


def _compressed(key: _Integers) -> tuple[_Integers, int]:
    values, numbers = np.unique(key, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), max(1, values.size)


def _number_neighbours(rows: _Floats, graphs: _Integers, tolerance: float) -> _Integers:
    """Splits the rows of a graph wherever the sorted values of an entry of P leave a gap, until no entry splits any."""
    groups, count = _compressed(graphs)
    while True:
        for column in _projector_entries(rows):
            groups = _split_at_gaps(groups, column, tolerance)
        previous = count
        groups, count = _compressed(groups)
        if count == previous:
            return groups


def _projector_entries(rows: _Floats) -> Iterator[_Floats]:
    squared_norm = np.einsum("nr,nr->n", rows, rows)
    for first in range(rows.shape[1]):
        for second in range(first, rows.shape[1]):
            yield rows[:, first] * rows[:, second] / squared_norm


def _split_at_gaps(groups: _Integers, column: _Floats, tolerance: float) -> _Integers:
    sizes = np.bincount(groups)
    shared = np.flatnonzero(sizes[groups] > 1)  # a group of one cannot be split: 3M different rows are sorted once
    order = shared[np.lexsort((column[shared], groups[shared]))]
    if order.size == 0:
        return groups
    split, old = groups.copy(), groups[order]
    starts = (old[1:] != old[:-1]) | (np.diff(column[order]) > tolerance)
    split[order] = sizes.size + np.concatenate([[0], np.cumsum(starts)])
    return split


def first_rows(groups: _Integers) -> _Integers:
    """Number of the first row of each group, for groups numbered from 0 without gaps."""
    first = np.empty(int(groups.max(initial=-1)) + 1, np.int64)
    first[groups[::-1]] = np.arange(groups.size)[::-1]  # of several values for one place, the last one stays
    return first


def _by_first_appearance(groups: _Integers) -> _Integers:
    """Renumbers groups so that a group with an earlier first row has the smaller number."""
    first = first_rows(groups)
    rank = np.empty_like(first)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[groups]
