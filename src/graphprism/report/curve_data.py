"""Loss curves by data set, thinned out so that thousands of runs fit into one page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from graphprism.report.configurations import Configuration, configurations
from graphprism.report.mean_curve import MeanCurve, mean_curve
from graphprism.results import RunResult

SHOWN = 12
POINTS = 150
# All points of a page: at 4 numbers of about 7 letters for each, they stay below 3 MB.
ALL_POINTS = 100_000


def curve_data(runs: Sequence[RunResult]) -> dict[str, Any]:
    """What the script draws: a panel for each data set and metric.

    Returns:
        ``panels`` as plain data, ``grids`` with the epochs that curves share, ``points`` that a curve has at most and
        ``thinned``, whether one has lost some by that.
    """
    groups: dict[tuple[str, str], list[RunResult]] = defaultdict(list)
    for run in runs:
        groups[str(run.run.get("dataset", "unknown")), run.metric].append(run)
    found = {name: configurations(group) for name, group in groups.items()}
    points = max(20, min(POINTS, ALL_POINTS // max(1, sum(map(len, found.values())))))
    grids = Grids(points)
    panels = [_panel(dataset, metric, each, grids) for (dataset, metric), each in found.items()]
    panels = [panel for panel in panels if panel["curves"]]
    return {"points": points, "thinned": grids.thinned, "grids": grids.lists, "panels": panels}


class Grids:
    """Lists of epochs, each kept once: most curves of a page share one."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.thinned = False
        self._numbers: dict[tuple[int, ...], int] = {}

    @property
    def lists(self) -> list[tuple[int, ...]]:
        """By their number."""
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
    """A run that diverged says nothing about the mean of those that did not; alone it is shown as far as it goes."""
    return [run for run in configuration.runs if run.status == "finished"] or list(configuration.runs)


def _panel(dataset: str, metric: str, found: Iterable[Configuration], grids: Grids) -> dict[str, Any]:
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
    """Marks those to show at first: the best of every model and split, then the second best, and so on."""
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
