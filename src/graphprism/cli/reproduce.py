"""``graphprism reproduce``."""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from graphprism._files import write_whole
from graphprism._text import counted, duration
from graphprism.cli.arguments import Data, one_sentence
from graphprism.cli.progress import progress, table_progress
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
    Reproduction,
    Settings,
    TableSpec,
    figure_2_spec,
    memory_table,
    parameters_table,
    plot_figure_2,
    plot_training_loss,
    run_figure_2,
    runtime_table,
    show_table,
    write_table,
)
from graphprism.plotting import save_figure
from graphprism.results import TableResult

# The part of a run's title in which those of one configuration differ.
_SEED = re.compile(r", seed \d+")
# Columns in a file or a pipe, where the width of a terminal is not known; six columns of numbers fit.
_WIDTH = 100
# What a shell reports of a command that Ctrl-C has ended.
_INTERRUPTED = 130


def reproduce_table(spec: TableSpec, options: dict[str, Any], data: Path | None, out: Path, dry_run: bool) -> None:
    """Runs a table, prints it and says where it is; or says what would run."""
    with stoppable(), one_sentence(), plain_warnings():
        settings = Settings(**{**options, **{name: _names(options[name]) for name in ("rows", "columns")}})
        wanted = Reproduction.of(spec, settings, data, out, fetch=not dry_run)
        for reason in wanted.missing.values():
            warnings.warn(reason, stacklevel=1)
        if dry_run:
            typer.echo("\n".join(dry_run_lines(wanted)))
            return
        with table_progress({run.key: run.title for run in wanted.runs}) as listener:
            table = wanted.run(listener)
        places = [out / "tables" / f"{table.name}.json"]
        if spec.name == TRAINING_LOSS.name:
            places += _draw(wanted, table)
    print_table(table, places)


def dry_run_lines(wanted: Reproduction) -> list[str]:
    """What would run, how many steps that is, and how long it takes as far as the ledger tells."""
    found = wanted.estimate()
    left = found.runs - found.finished
    results = wanted.results()
    titles = Counter(_SEED.sub("", run.title) for run in wanted.runs if run.key not in results)
    runs = [f"{title}: {counted(count, 'run')}" for title, count in titles.items()]
    absent = sorted({run.dataset for run in wanted.runs} - set(wanted.datasets))
    hours = f"about {duration(found.seconds)} by like runs on this machine" if found.seconds else ""
    unknown = (
        f"{counted(found.unknown, 'run')} of unknown time until the first like them has run" if found.unknown else ""
    )
    steps = f"{found.steps:,} steps" + (f" and those on {', '.join(absent)}, fetched first" if absent else "")
    time = f"; {'; '.join(part for part in (hours, unknown) if part)}" if left else ""
    return [*runs, f"{left} of {found.runs} runs to do ({found.finished} are in the ledger), {steps}{time}."]


def write_and_print(table: TableResult, out: Path) -> None:
    """Writes a table that needed no training, and prints it."""
    print_table(table, [write_table(table, out)])


def print_table(table: TableResult, places: list[Path]) -> None:
    """Prints a table, and where its files are."""
    Console(width=None if Console().is_terminal else _WIDTH).print(show_table(table))
    typer.echo(f"Written: {', '.join(map(str, places))}.")


@contextmanager
def stoppable() -> Iterator[None]:
    """Ends with a sentence and the exit code of an interrupted command after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on", err=True)
        raise typer.Exit(_INTERRUPTED) from None


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Shows warnings as a sentence each, without the line of source that gave them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"warning: {message}", err=True)
        yield


def _draw(wanted: Reproduction, table: TableResult) -> list[Path]:
    picture = plot_training_loss(table, wanted.results())
    paths = [wanted.out / table.name / f"{table.name}{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        save_figure(picture, path)
    return paths


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


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
        write_whole(out / "figure-2.json", result.to_json(), "results")
        picture = plot_figure_2(result)
        for name in ("figure-2.png", "figure-2.svg"):
            save_figure(picture, out / name)
    Console().print(result)
    typer.echo(f"0 is one signal. JSON, PNG and SVG are in {out} ({duration(time.perf_counter() - start)}).")


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
