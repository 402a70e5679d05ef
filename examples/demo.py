"""The whole method in a minute: a deep network collapses, a split prevents it, and the split network learns more.

Writes one page with tables, curves, the split drawn on a molecule and the figure. Called by `make demo`.
"""

import io
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from graphprism.datasets import molecules
from graphprism.experiments import Figure2Result, Figure2Spec, plot_figure_2, run_figure_2
from graphprism.plotting import draw_split
from graphprism.report import page
from graphprism.results import Cell, RunResult, Score, TableResult
from graphprism.testing import molecule
from graphprism.training import Run, train

FOLDER = Path("outputs/demo")
MODELS = ("gcn", "mrs-gcn")
COLLAPSE = Figure2Spec(models=MODELS, graphs="molecules", seeds=20)
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
SHOWN = (1, 4, 16, 64, 128)  # in the page, which needs no scrolling then
NUM_MOLECULES, SEEDS = 5000, 3
# Relations start apart, as in the paper on molecules.
RUNS = [
    Run(
        "molecules",
        model,
        layers=8,
        budget=60_000,
        start="independent",
        lr=0.002,
        warmup=0,
        batch_size=64,
        epochs=8,
        seed=seed,
    )
    for seed in range(SEEDS)
    for model in MODELS
]


def main(folder: Path = FOLDER) -> None:
    """Runs both parts, prints what they found, and writes the page."""
    console, start = Console(), time.perf_counter()
    torch.set_num_threads(1)  # batches of 64 molecules gain little by a second thread, and nothing on a busy machine
    columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        deep = progress.add_task(f"{COLLAPSE.layers} layers with random weights", total=COLLAPSE.seeds * len(MODELS))
        trained = progress.add_task(f"training on {NUM_MOLECULES:,} molecules", total=sum(run.epochs for run in RUNS))
        collapse = run_figure_2(COLLAPSE, on_run=lambda *_: progress.advance(deep))
        data = molecules(NUM_MOLECULES)
        runs = [train(run, data, accelerator="cpu", on_epoch=lambda _: progress.advance(trained)) for run in RUNS]
    console.print(collapse_text(collapse), training_text(runs))
    path = write_page(folder, collapse, runs)
    console.print(
        f"Tables, curves, the split on a molecule and the figure are in [bold]{path}[/] "
        f"({time.perf_counter() - start:.0f} s)",
        soft_wrap=True,
    )


def collapse_text(result: Figure2Result) -> Table:
    """Medians of the rank-one distance by depth."""
    table = Table(title=f"Rank-one distance by layers, median of {COLLAPSE.seeds} molecules: 0 is one signal")
    table.add_column("layers")
    for depth in DEPTHS:
        table.add_column(str(depth), justify="right")
    for model in MODELS:
        medians = result.median(model).tolist()
        table.add_row(model.upper(), *(f"{medians[depth - 1]:.2g}" for depth in DEPTHS))
    return table


def training_text(runs: list[RunResult]) -> Table:
    """Scores of both networks, at equal parameters."""
    table = Table(title=f"Trained for {RUNS[0].epochs} epochs, {SEEDS} seeds: mean absolute error, smaller is better")
    table.add_column("model")
    for column in ("parameters", "validation", "test"):
        table.add_column(column, justify="right")
    for model in MODELS:
        own = [run for run in runs if run.run["model"] == model]
        scores = [Score.of([run.at_best(column) for run in own]) for column in ("val", "test")]
        table.add_row(
            model.upper(), f"{own[0].parameters:,}", *(f"{score.mean:.3f} ± {score.deviation:.3f}" for score in scores)
        )
    return table


def write_page(folder: Path, collapse: Figure2Result, runs: list[RunResult]) -> Path:
    """One file that needs no network."""
    figures = {
        f"A molecule and its relations, split by {COLLAPSE.split}": svg(
            draw_split(
                molecule(7), COLLAPSE.split, title="Up leads to an atom with more neighbours, down back", columns=2
            )
        ),
        f"Rank-one distance through {COLLAPSE.layers} layers": svg(plot_figure_2(collapse)),
    }
    cells = tuple(
        Cell(model.upper(), str(depth), Score(float(collapse.median(model)[depth - 1])))
        for model in MODELS
        for depth in SHOWN
    )
    table = TableResult(
        name="collapse",
        title=f"How far nodes are from one signal, by number of layers ({COLLAPSE.seeds} molecules)",
        source="",
        rows=tuple(model.upper() for model in MODELS),
        columns=tuple(map(str, SHOWN)),
        cells=cells,
        unit="distance",
        notes=("Median rank-one distance: 0 means that all nodes carry multiples of one signal.",),
        larger_is_better=True,
    )
    path = folder / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page([table], runs, figures, title="graphprism: what a split does"), "utf-8")
    return path


def svg(figure) -> str:
    """The text of a drawing."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
