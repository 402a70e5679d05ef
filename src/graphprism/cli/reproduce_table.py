"""What all tables of ``graphprism reproduce`` share."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from graphprism.analysis.figures import save_figure
from graphprism.cli.errors import one_sentence
from graphprism.cli.table_progress import table_progress
from graphprism.experiments import (
    TRAINING_LOSS,
    Reproduction,
    Settings,
    TableSpec,
    plot_training_loss,
    show_table,
    write_table,
)
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
    runs = [f"{title}: {count} {'run' if count == 1 else 'runs'}" for title, count in titles.items()]
    absent = sorted({run.dataset for run in wanted.runs} - set(wanted.datasets))
    hours = f"about {found.seconds / 3600:.1f} h by like runs on this machine" if found.seconds else ""
    unknown = f"{found.unknown} runs of unknown time until the first like them has run" if found.unknown else ""
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
