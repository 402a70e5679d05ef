"""The picture of Figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphprism.analysis.figures import COLOURS, new_figure
from graphprism.results import RunResult, TableResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_training_loss(table: TableResult, results: Mapping[str, RunResult]) -> Figure:
    """Mean and deviation of the training loss by epoch on a logarithmic axis; a model and its MRS form share a colour.

    Args:
        table: Whose cells name the runs behind each row.
        results: By the keys of runs.
    """
    figure = new_figure(7.5, 4.4)
    axes = figure.subplots()
    families = list(dict.fromkeys(row.removeprefix("MRS-") for row in table.rows))
    longest = 2
    for row in table.rows:
        runs = [results[key] for cell in table.cells if cell.row == row for key in cell.runs]
        if runs:
            losses = _losses(runs)
            longest = max(longest, losses.size(1))
            _curve(axes, row, losses, COLOURS[families.index(row.removeprefix("MRS-")) % len(COLOURS)])
    _frame(axes, table)
    axes.set_xlim(1, longest)
    return figure


def _frame(axes: Axes, table: TableResult) -> None:
    axes.set(yscale="log", xlabel="epoch", ylabel=f"training loss ({table.unit})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", which="both", alpha=0.25, linewidth=0.5)
    if axes.lines:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.set_title(table.title, loc="left", fontsize=12, pad=20)
    seeds = max((len(cell.runs) for cell in table.cells), default=0)
    runs = f"mean and deviation of up to {seeds} seeds" if seeds > 1 else "one seed" if seeds else "nothing has run yet"
    axes.text(0, 1.025, runs, transform=axes.transAxes, fontsize=8, color="0.35")


def _losses(results: list[RunResult]) -> Tensor:
    """Training losses, (S, L) in float64: NaN where none was taken."""
    columns = [result.history["train_loss"] for result in results]
    longest = max(map(len, columns))
    rows = [
        [float("nan") if value is None else value for value in [*column, *[None] * (longest - len(column))]]
        for column in columns
    ]
    return torch.tensor(rows, dtype=torch.float64)


def _curve(axes: Axes, row: str, losses: Tensor, colour: str) -> None:
    epochs = range(1, losses.size(1) + 1)
    mean = losses.nanmean(dim=0)
    style = "-" if row.startswith("MRS-") else "--"
    if losses.size(0) > 1:
        deviation = losses.std(dim=0, correction=1)
        low = torch.maximum(mean - deviation, mean / 10)  # a logarithmic axis has no room for zero
        axes.fill_between(epochs, low.tolist(), (mean + deviation).tolist(), color=colour, alpha=0.15, linewidth=0)
    axes.plot(epochs, mean.tolist(), style, color=colour, linewidth=1.6, label=row)
