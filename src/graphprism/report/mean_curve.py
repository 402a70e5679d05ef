"""The mean of several curves at a few of their epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from graphprism.results import Score


@dataclass(frozen=True)
class MeanCurve:
    """Mean and deviation over runs.

    Attributes:
        epochs: Those that are kept, counted from 1.
        means: Over the runs that have a number at that epoch.
        deviations: With ``ddof=1``; 0 where there is one number. None where no epoch has two.
        total: How many epochs have a number; more than are kept where the curve was thinned out.
    """

    epochs: tuple[int, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...] | None
    total: int


def mean_curve(histories: Sequence[Sequence[float | None]], points: int) -> MeanCurve | None:
    """Keeps at most ``points`` epochs, evenly spread with the first and the last; None where there is no number.

    >>> mean_curve([[1.0, None, 3.0], [3.0]], points=9)
    MeanCurve(epochs=(1, 3), means=(2.0, 3.0), deviations=(1.4142135623730951, 0.0), total=2)
    """
    epochs = [at for at, values in enumerate(zip_longest(*histories)) if any(value is not None for value in values)]
    kept = thinned(epochs, points)
    scores = {at + 1: score for at in kept if (score := Score.of(_numbers(histories, at)))}
    if not scores:
        return None
    means = tuple(score.mean for score in scores.values())
    deviations = tuple(score.deviation or 0.0 for score in scores.values())
    has_two = any(score.deviation is not None for score in scores.values())
    return MeanCurve(tuple(scores), means, deviations if has_two else None, len(epochs))


def thinned(items: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of them, evenly spread, with the first and the last.

    >>> thinned(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(items) <= count:
        return list(items)
    return [items[round(each * (len(items) - 1) / (count - 1))] for each in range(count)]


def _numbers(histories: Sequence[Sequence[float | None]], at: int) -> list[float]:
    here = (history[at] for history in histories if at < len(history))
    return [value for value in here if value is not None and math.isfinite(value)]
