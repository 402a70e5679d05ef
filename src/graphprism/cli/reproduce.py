"""``graphprism reproduce``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphprism.analysis.figures import save_figure, write_atomically
from graphprism.cli.arguments import Data
from graphprism.cli.errors import one_sentence
from graphprism.cli.progress import progress
from graphprism.cli.reproduce_table import reproduce_table, stoppable, write_and_print
from graphprism.experiments import (
    DEPTH,
    DIRECTED,
    FIGURE_2,
    HOMOPHILIC,
    ORDERINGS_64,
    ORDERINGS_TABLE,
    PEPTIDES,
    TRAINING_LOSS,
    ZINC,
    TableSpec,
    figure_2_spec,
    memory_table,
    parameters_table,
    plot_figure_2,
    run_figure_2,
    runtime_table,
)

app = typer.Typer(help="Compute a figure or table of the paper.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the ledger, checkpoints and tables are.")]
Seeds = Annotated[int, typer.Option(help="Runs of each configuration.")]
OUTPUTS = Path("outputs")


@app.callback()
def reproduce() -> None:
    """A group, so that there can be more figures than one."""


@app.command("figure-2")
def figure_2(
    models: Annotated[str, typer.Option(help="Names between commas.")] = ",".join(FIGURE_2.models),
    graphs: Annotated[str | None, typer.Option(help="zinc, molecules or cora; zinc if its file is there.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds: 50; 10 on cora.", show_default=False)] = None,
    layers: Annotated[int, typer.Option(help="Number of iterations.")] = FIGURE_2.layers,
    channels: Annotated[int, typer.Option(help="Width of the states.")] = FIGURE_2.channels,
    data: Data = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("outputs/figure-2"),
) -> None:
    """Follow the rank-one distance through 128 layers with fresh random weights, with and without a split."""
    start = time.perf_counter()
    with one_sentence():
        spec = figure_2_spec(models.split(","), graphs, seeds, layers, channels, data)
        with progress(len(spec.models) * spec.seeds) as advance:
            result = run_figure_2(spec, data, on_run=lambda model, seed: advance(f"{model}, seed {seed}"))
        write_atomically(out / "figure-2.json", result.to_json().encode())
        picture = plot_figure_2(result)
        for name in ("figure-2.png", "figure-2.svg"):
            save_figure(picture, out / name)
    Console().print(result)
    typer.echo(f"0 is one signal. JSON, PNG and SVG are in {out} ({time.perf_counter() - start:.0f} s).")


@app.command()
def parameters(out: Out = OUTPUTS) -> None:
    """Count the parameters of all ten models at eight layers."""
    with one_sentence():
        write_and_print(parameters_table(), out)


@app.command()
def runtime(
    repeats: Annotated[int, typer.Option(help="How often each step is timed.")] = 100,
    data: Data = None,
    out: Out = OUTPUTS,
) -> None:
    """Time the five steps of a layer on a batch of 32 molecules."""
    with stoppable(), one_sentence():
        write_and_print(runtime_table(data, repeats), out)


@app.command()
def memory(seeds: Seeds = 3, data: Data = None, out: Out = OUTPUTS) -> None:
    """Measure the memory of training, each run in a process of its own."""
    with stoppable(), one_sentence(), progress(2 * max(seeds, 1)) as advance:
        table = memory_table(data, seeds, on_run=advance)
        write_and_print(table, out)


def table_command(spec: TableSpec) -> Callable[..., None]:
    """The command of a table that is trained."""

    def command(
        rows: Annotated[str | None, typer.Option(help="Rows to run, between commas; all without it.")] = None,
        columns: Annotated[str | None, typer.Option(help="Columns to run, between commas; all without it.")] = None,
        seeds: Seeds = spec.seeds,
        grid: Annotated[
            str, typer.Option(help="best: published hyper-parameters; full: all that were tried.")
        ] = "best",
        epochs: Annotated[int | None, typer.Option(help="In place of the published number, to try things out.")] = None,
        engine: Annotated[str, typer.Option(help="eager, lockstep (many runs at once on a GPU) or auto.")] = "auto",
        data: Data = None,
        out: Out = OUTPUTS,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and stop.")] = False,
        resume: Annotated[bool, typer.Option("--resume", help="Go on where a call was stopped: always done.")] = True,
    ) -> None:
        options = dict(rows=rows, columns=columns, seeds=seeds, grid=grid, epochs=epochs, engine=engine)
        reproduce_table(spec, options, data, out, dry_run)

    return command


for _spec in (ORDERINGS_TABLE, ORDERINGS_64, ZINC, DEPTH, PEPTIDES, TRAINING_LOSS, DIRECTED, HOMOPHILIC):
    _help = f"{_spec.title}; what has run is taken from the ledger, what was cut short goes on."
    app.command(_spec.name, help=_help)(table_command(_spec))
