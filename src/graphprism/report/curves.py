"""The section of loss curves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from graphprism._text import counted
from graphprism.report.configurations import Configuration, by_data_set, configurations
from graphprism.report.html import Html, section, tag
from graphprism.results import RunResult, Score


@dataclass(frozen=True)
class MeanCurve:
    """Mean and deviation over runs.

    Attributes:
        epochs: Kept epochs, counted from 1.
        means: Means over the runs with a number at that epoch.
        deviations: Standard deviations with ``ddof=1``, 0 for a single number; None if no epoch has two numbers.
        total: Number of epochs with a number, before thinning.
    """

    epochs: tuple[int, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...] | None
    total: int


def mean_curve(histories: Sequence[Sequence[float | None]], points: int) -> MeanCurve | None:
    """Keeps at most ``points`` epochs, evenly spaced with the first and the last; None without any number.

    >>> mean_curve([[1.0, None, 3.0], [3.0]], points=9)
    MeanCurve(epochs=(1, 3), means=(2.0, 3.0), deviations=(1.4142135623730951, 0.0), total=2)
    """
    # an epoch that only one thinned run kept, its best, would make a spike: all runs that reached it must have it
    lasted = [history[: _length(history)] for history in histories]
    epochs = [at for at, values in enumerate(zip_longest(*lasted, fillvalue=0.0)) if None not in values]
    kept = thinned(epochs, points)
    scores = {at + 1: score for at in kept if (score := Score.of(_numbers(histories, at)))}
    if not scores:
        return None
    means = tuple(score.mean for score in scores.values())
    deviations = tuple(score.deviation or 0.0 for score in scores.values())
    has_two = any(score.deviation is not None for score in scores.values())
    return MeanCurve(tuple(scores), means, deviations if has_two else None, len(epochs))


def _length(history: Sequence[float | None]) -> int:
    """The last epoch with a number, counted from 1; 0 without any."""
    return max((at + 1 for at, value in enumerate(history) if value is not None), default=0)


def thinned(items: Sequence[int], count: int) -> list[int]:
    """At most ``count`` entries, evenly spaced, with the first and the last.

    >>> thinned(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(items) <= count:
        return list(items)
    return [items[round(each * (len(items) - 1) / (count - 1))] for each in range(count)]


# Larger values are not drawn: their deviation and the axes would overflow.
_LARGEST = 1e300


def _numbers(histories: Sequence[Sequence[float | None]], at: int) -> list[float]:
    here = (history[at] for history in histories if at < len(history))
    return [value for value in here if value is not None and abs(value) < _LARGEST]


SHOWN = 12
POINTS = 150
# Points of a page: at 4 numbers of about 7 characters each, they stay below 3 MB.
ALL_POINTS = 100_000


def curve_data(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Input of the script: a panel for each data set and metric.

    Returns:
        ``panels`` as plain data, ``grids`` of epochs that curves share, ``points``, the maximum per curve, and
        ``thinned``, whether a curve was thinned.
    """
    found = {name: configurations(group) for name, group in by_data_set(runs).items()}
    points = max(20, min(POINTS, ALL_POINTS // max(1, sum(map(len, found.values())))))
    grids = Grids(points)
    panels = [_panel_data(dataset, metric, each, grids) for (dataset, metric), each in found.items()]
    panels = [panel for panel in panels if panel["curves"]]
    return {"points": points, "thinned": grids.thinned, "grids": grids.lists, "panels": panels}


class Grids:
    """Deduplicated lists of epochs: most curves of a page share one."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.thinned = False
        self._numbers: dict[tuple[int, ...], int] = {}

    @property
    def lists(self) -> list[tuple[int, ...]]:
        """All lists, in order of their index."""
        return list(self._numbers)

    def curve(self, configuration: Configuration, column: str) -> dict[str, Any] | None:
        """The mean of a column over the runs of a configuration, as plain data."""
        curve = mean_curve([run.history.get(column) or [] for run in _counted(configuration)], self.points)
        return None if curve is None else self._plain(curve)

    def _plain(self, curve: MeanCurve) -> dict[str, Any]:
        self.thinned |= curve.total > len(curve.epochs)
        number = self._numbers.setdefault(curve.epochs, len(self._numbers))
        deviations = {} if curve.deviations is None else {"deviation": [_rounded(each, 2) for each in curve.deviations]}
        return {"grid": number, "mean": [_rounded(each, 4) for each in curve.means], **deviations}


def _counted(configuration: Configuration) -> list[RunResult]:
    """Finished runs; all runs if none has finished, so that a diverged configuration still has a curve."""
    return [run for run in configuration.runs if run.status == "finished"] or list(configuration.runs)


def _panel_data(dataset: str, metric: str, found: Iterable[Configuration], grids: Grids) -> dict[str, Any]:
    curves = [(each, _curve(each, grids)) for each in found]
    curves = [(each, curve) for each, curve in curves if curve["train"] or curve["val"]]
    larger = bool(curves) and curves[0][0].runs[0].larger_is_better
    _show_some(curves, larger)
    plain = sorted((curve for _, curve in curves), key=lambda curve: not curve["shown"])
    return {"dataset": dataset, "metric": metric, "larger": larger, "curves": plain}


def _curve(configuration: Configuration, grids: Grids) -> dict[str, Any]:
    return {
        "label": configuration.label,
        "runs": len(configuration.runs),
        "diverged": configuration.diverged,
        "shown": False,
        "train": grids.curve(configuration, "train_loss"),
        "val": grids.curve(configuration, "val"),
    }


def _show_some(curves: Iterable[tuple[Configuration, dict[str, Any]]], larger: bool) -> None:
    """Marks the curves to show initially: the best of every model and split, then the second best, and so on."""
    taken: dict[tuple[str, str], int] = defaultdict(int)
    ranked = []
    for configuration, curve in sorted(curves, key=lambda each: _rank(each[1], larger)):
        ranked.append((taken[configuration.family], curve))
        taken[configuration.family] += 1
    for _, curve in sorted(ranked, key=lambda each: each[0])[:SHOWN]:
        curve["shown"] = True


def _rank(curve: dict[str, Any], larger: bool) -> float:
    if not curve["val"]:
        return min(curve["train"]["mean"], default=0.0)
    values: list[float] = curve["val"]["mean"]
    return -max(values) if larger else min(values)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def curves(runs: Sequence[RunResult]) -> Html | None:
    """Elements that the script fills, and its data; None if no run has a history."""
    data = curve_data(runs)
    if not data["panels"]:
        return None
    # A `<` could close the element; JSON can escape it.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    numbers = tag("script", Html(text), type="application/json", id="curve-data")
    without = tag("noscript", tag("p", "The script of this page draws the curves, and your browser does not run it."))
    panels = [_panel(panel, number) for number, panel in enumerate(data["panels"])]
    return section("curves", "Loss curves", tag("p", _explained(data), class_="lead"), without, *panels, numbers)


def _explained(data: dict[str, Any]) -> str:
    thinned = f" Curves are thinned out to at most {data['points']} epochs each." if data["thinned"] else ""
    return (
        "A line is the mean over the seeds of a configuration, its band one standard deviation. Runs that diverged are "
        f"left out of the mean unless all did.{thinned} Point at a line or a name to bring it out; beside a "
        "name stands the best mean validation score."
    )


def _panel(panel: dict[str, Any], number: int) -> Html:
    total = len(panel["curves"])
    best = f", {SHOWN} of them shown at first: the best by validation of each model and split" if total > SHOWN else ""
    chosen = counted(total, "configuration") + best
    heading = tag("h3", panel["dataset"], " ", tag("small", f"{panel['metric']} · {chosen}"))
    return tag("div", heading, class_="panel", data_panel=str(number))
