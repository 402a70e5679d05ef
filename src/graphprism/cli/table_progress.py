"""How far a table has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from graphprism.cli.progress import progress
from graphprism.experiments import Listener
from graphprism.results import RunResult


@contextmanager
def table_progress(titles: Mapping[str, str]) -> Iterator[Listener]:
    """Gives a listener that shows on stderr how many runs are done, and on a terminal also every epoch.

    Args:
        titles: What to call each run, by its key.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        with progress(max(len(titles), 1)) as advance:
            yield Listener(lambda result: advance(_said(result, titles)), on_wait=_wait)
        return
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=len(titles))
        yield Listener(
            lambda result: bar.update(task, advance=1, description=_said(result, titles)),
            lambda report: bar.update(task, description=epoch_line(report)),
            _wait,
        )


def epoch_line(report: Any) -> str:
    """An epoch in a line, from what `graphprism.training.EpochReport` holds."""
    left = f"{report.remaining_seconds / 60:.0f} min left"
    return f"{report.run.title}: epoch {report.epoch} of {report.epochs}, loss {report.train_loss:.4f}, {left}"


def _said(result: RunResult, titles: Mapping[str, str]) -> str:
    """The title of a run; that it diverged is said on a line of its own, which stays."""
    title = titles.get(result.key, result.key)
    if result.status == "diverged":
        typer.echo(f"diverged: {title}", err=True)
    return title


def _wait(count: int) -> None:
    runs = "1 run" if count == 1 else f"{count} runs"
    typer.echo(f"waiting for {runs} of another process; stop at any time, the same command goes on", err=True)
