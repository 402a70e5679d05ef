"""The picture of Figure 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphprism.analysis.figures import COLOURS, new_figure
from graphprism.experiments.figure_2_result import HIGH, LOW, Figure2Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRAPHS = {"zinc": "ZINC", "molecules": "built-in molecules", "cora": "Cora's largest component"}
# Rounding keeps the distance of a state of rank one at about this.
_ROUNDING = 1e-16


def plot_figure_2(result: Figure2Result) -> Figure:
    """Mean and 10 to 90 % of the seeds on a logarithmic axis; a model and its MRS form share a colour."""
    figure = new_figure(7.5, 4.4)
    axes = figure.subplots()
    for model in result.distances:
        _curve(axes, result, model)
    axes.set(yscale="log", xlim=(1, max(result.spec.layers, 2)), xlabel="iteration", ylabel="rank-one distance")
    bottom = axes.get_ylim()[0]
    axes.set_ylim(max(bottom, _ROUNDING), 3)
    if bottom < 1e-13:
        axes.text(0.99, 0.01, "below 1e-13 is rounding", transform=axes.transAxes, ha="right", fontsize=7, color="0.45")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _titles(axes, result)
    return figure


def _titles(axes: Axes, result: Figure2Result) -> None:
    spec = result.spec
    axes.set_title("How far node states are from one signal", loc="left", fontsize=12, pad=20)
    data = f"{_GRAPHS[spec.graphs]}, {spec.channels} channels, split by {spec.split}"
    note = f"{data}; mean and 10-90 % of {spec.seeds} seeds"
    zeros = sum(int(result.zero_collapse(model)[-1]) for model in result.distances)
    note += f"; {zeros} of {len(result.distances) * spec.seeds} runs ended in zeros" if zeros else ""
    axes.text(0, 1.025, note, transform=axes.transAxes, fontsize=8, color="0.35")


def _curve(axes: Axes, result: Figure2Result, model: str) -> None:
    depth = range(1, result.spec.layers + 1)
    plain = model.removeprefix("mrs-")
    families = list(dict.fromkeys(name.removeprefix("mrs-") for name in result.distances))
    colour = COLOURS[families.index(plain) % len(COLOURS)]
    style = "-" if model.startswith("mrs-") else "--"
    low, high = (result.quantile(model, share).clamp(min=_ROUNDING).tolist() for share in (LOW, HIGH))
    axes.fill_between(depth, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(depth, result.mean(model).tolist(), style, color=colour, linewidth=2, label=model.upper())
