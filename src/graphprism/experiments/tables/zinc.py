"""Table 2: five convolutions and their MRS forms on full ZINC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.experiments.spec import CellSpec, TableSpec
from graphprism.plotting import COLOURS, new_figure
from graphprism.results import RunResult, Score, TableResult
from graphprism.training import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRID = {"lr": (0.001, 0.0003, 0.0001), "layers": (1, 2, 4, 8, 16, 32)}
TRAIN, TEST = "Train (MAE)", "Test (MAE)"

# Row, model, published train and test, and the learning rate and layers of train and of test.
_ROWS = (
    ("GCN", "gcn", (0.053, 0.001), (0.155, 0.003), (0.0003, 16), (0.0003, 16)),
    ("MRS-GCN", "mrs-gcn", (0.023, 0.000), (0.134, 0.001), (0.0003, 8), (0.0001, 8)),
    ("SAGE", "sage", (0.039, 0.001), (0.123, 0.002), (0.0003, 8), (0.0003, 8)),
    ("MRS-SAGE", "mrs-sage", (0.022, 0.000), (0.106, 0.002), (0.0003, 8), (0.0003, 8)),
    ("GAT", "gat", (0.049, 0.002), (0.149, 0.001), (0.0003, 8), (0.0003, 8)),
    ("MRS-GAT", "mrs-gat", (0.026, 0.001), (0.128, 0.000), (0.0003, 8), (0.0003, 8)),
    ("GIN", "gin", (0.058, 0.001), (0.123, 0.004), (0.0003, 8), (0.0003, 8)),
    ("MRS-GIN", "mrs-gin", (0.026, 0.000), (0.106, 0.004), (0.0003, 8), (0.0001, 8)),
    ("GatedGCN", "gated-gcn", (0.051, 0.002), (0.099, 0.011), (0.0003, 8), (0.0003, 8)),
    ("MRS-GatedGCN", "mrs-gated-gcn-9", (0.011, 0.003), (0.088, 0.004), (0.0003, 8), (0.0003, 8)),
)
# What the authors' networks do and the text does not say, by model.
AS_AUTHORS: Mapping[str, dict[str, Any]] = {
    "mrs-sage": {"weight_init": "glorot"},
    "gated-gcn": {"edge_residual": True},
    "mrs-gated-gcn-9": {"edge_residual": True},
}
AS_AUTHORS_NOTES = (
    "GatedGCN and MRS-GatedGCN add the state of an edge before a layer to the one after it, as the authors' layer does "
    "without saying so; the printed formula does not.",
    "The matrices of MRS-SAGE start with Glorot's distribution, as the authors' do; those of SAGE as PyG's.",
)
NINE_MAPS = (
    "MRS-GatedGCN is the form with nine maps, as the published numbers of parameters count them; the printed formula "
    "has seven."
)


def _cells() -> tuple[CellSpec, ...]:
    cells = []
    for row, model, train, test, (train_lr, train_layers), (test_lr, test_layers) in _ROWS:
        run = replace(Run("zinc", model, epochs=500, start="independent"), **AS_AUTHORS.get(model, {}))
        best_train = replace(run, lr=train_lr, layers=train_layers)
        best_test = replace(run, lr=test_lr, layers=test_layers)
        cells += [
            CellSpec(row, TRAIN, Score(*train, 3), best_train, GRID, "train-loss"),
            CellSpec(row, TEST, Score(*test, 3), best_test, GRID),
        ]
    return tuple(cells)


ZINC = TableSpec(
    name="zinc",
    title="Five convolutions and their MRS forms on full ZINC",
    source="Table 2 (tab:zinc_full), hyper-parameters of tab:overview_hyper",
    cells=_cells(),
    unit="MAE",
    notes=("Train and test may come from different hyper-parameters, as in the paper.", NINE_MAPS, *AS_AUTHORS_NOTES),
)


TRAINING_LOSS = TableSpec(
    name="training-loss",
    title="Training loss on full ZINC",
    source="Figure 3 (fig:training_loss); its numbers are not printed, so the published ones are the train column of "
    "Table 2 (tab:zinc_full), for whose runs it was drawn",
    cells=tuple(cell for cell in ZINC.cells if cell.column == TRAIN),
    unit="MAE",
    notes=(
        "The runs are those of the train column of the table zinc and are shared with it.",
        NINE_MAPS,
        *AS_AUTHORS_NOTES,
    ),
)


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
