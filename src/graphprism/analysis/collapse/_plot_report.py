"""The figure of a `CollapseReport`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphprism.analysis.collapse._verdict import RANK_ONE_BELOW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from graphprism.analysis.collapse.collapse_report import CollapseReport

_COLOURS = ("#2a6fbb", "#d1495b", "#3a9d6e")
_PANELS: Mapping[str, Mapping[str, str]] = {
    "rank-one distance": {"rank_one_distance": ""},
    "rank": {"effective_rank": "effective", "numerical_rank": "numerical"},
    "size and Dirichlet energy": {"frobenius_norm": "Frobenius norm", "dirichlet_energy_sym": "energy, symmetric"},
    "gradient norm": {"output_gradient": "of the output", "parameter_gradient": "of the parameters"},
}


def plot_report(report: CollapseReport) -> Figure:
    """Four panels over the layers; made without pyplot, so that no global figure stays open."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError("a plot needs the package matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(9.5, 6.2), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for axis, (title, lines) in zip(axes.flat, _PANELS.items(), strict=True):
        _panel(axis, report, title, lines)
    axes[0, 0].axhline(RANK_ONE_BELOW, color="0.5", linewidth=1, linestyle=":")
    for axis in axes[1]:
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(f"{report.model}: {report.verdict}", fontsize=11, x=0.01, ha="left")
    return figure


def _panel(axis: Axes, report: CollapseReport, title: str, lines: Mapping[str, str]) -> None:
    axis.set_title(title, loc="left", fontsize=10)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    layers, rows = [row.layer for row in report.rows], report.to_dicts()
    drawn: list[float] = []
    for (key, label), colour in zip(lines.items(), _COLOURS, strict=False):
        values = [math.nan if row[key] is None else row[key] for row in rows]
        marker = "o" if len(rows) <= 40 else None
        axis.plot(layers, values, color=colour, marker=marker, markersize=3.5, linewidth=1.6, label=label)
        drawn += [value for value in values if math.isfinite(value)]
    _scale(axis, drawn, linear=title == "rank")
    if len(lines) > 1 and drawn:
        axis.legend(frameon=False, fontsize=8)


def _scale(axis: Axes, values: Sequence[float], linear: bool) -> None:
    """A logarithmic axis where something is positive; an empty panel says so."""
    if not values:
        axis.text(0.5, 0.5, "none", transform=axis.transAxes, ha="center", va="center", color="0.5")
        axis.set_yticks([])
    elif linear:
        axis.set_ylim(bottom=0)
    elif max(values) > 0:
        axis.set_yscale("log")
