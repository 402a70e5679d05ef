"""From the options of ``graphprism train`` to what it prints."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from graphprism.cli.compare_partners import compare_partners
from graphprism.cli.epoch_progress import EpochProgress
from graphprism.cli.train_all import train_all
from graphprism.cli.train_data import train_data
from graphprism.cli.train_plan import train_plan
from graphprism.cli.train_runs import train_runs
from graphprism.cli.train_table import train_table
from graphprism.cli.train_where import train_where
from graphprism.results import RunResult
from graphprism.training import Run


def run_training(options: Mapping[str, Any]) -> None:
    """Says what will run, trains it and prints the results; exit code 130 where it was stopped, 1 where one diverged.

    Raises:
        ValueError: An option is wrong.
        OSError: The data set is not there, or the results cannot be written.
        KeyboardInterrupt: It was stopped before an epoch was finished.
    """
    runs, where, out = train_runs(options), train_where(options), Path(options["out"])
    progress = EpochProgress(quiet=not where.is_first)
    try:
        dataset = train_data(options["dataset"], options["data"])
        plan = train_plan(runs, dataset)
        _check_writable(out)
        if where.is_first:
            typer.echo("\n".join(plan))
        with progress:
            results = train_all(runs, dataset, out, where, progress, options["fresh"])
    except KeyboardInterrupt:
        if progress.last is None:
            raise
        progress.say(f"{progress.last.run.title}: stopped after epoch {progress.last.epoch}; the same command goes on")
        raise typer.Exit(130) from None
    if where.is_first:
        _print(results, out)


def _print(results: Sequence[RunResult], out: Path) -> None:
    Console().print(train_table(results))
    for sentence in compare_partners(results):
        typer.echo(sentence)
    typer.echo(f"The results are in {out / 'ledger.jsonl'}.")
    diverged = [Run.from_dict(result.run) for result in results if result.status == "diverged"]
    for run in diverged:
        advice = f"try a smaller learning rate than {run.lr:g}"
        typer.echo(f"error: {run.title}: diverged, its loss was not a finite number; {advice}", err=True)
    if diverged:
        raise typer.Exit(1)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"{folder}: no results can be written there ({error.strerror}); name another folder with --out"
        raise OSError(problem) from error
