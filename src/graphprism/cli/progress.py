"""How far a command has come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graphprism._text import counted, duration
from graphprism.experiments import Listener
from graphprism.results import RunResult
from graphprism.training import EpochReport

# Lines in a file or a pipe, where a bar cannot move.
_LINES = 4


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Gives a function to call with a word after each of ``total`` steps: a bar on a terminal, else a few lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda word: bar.update(task, advance=1, description=word)


def is_due(done: int, total: int, lines: int) -> bool:
    """Whether to print a line now, so that there are at most ``lines`` of them, evenly, and one at the end.

    >>> [done for done in range(1, 11) if is_due(done, 10, 4)]
    [3, 5, 8, 10]
    """
    return done * lines // total > (done - 1) * lines // total


def _lines(total: int) -> Callable[[str], None]:
    done = 0

    def advance(word: str) -> None:
        nonlocal done
        done += 1
        if is_due(done, total, _LINES):
            typer.echo(f"{done} of {total} runs done", err=True)

    return advance


# Lines of one run in a file or a pipe, where a bar cannot move.
_LINE_SECONDS = 8


class EpochProgress:
    """Is called with an `EpochReport` after each epoch: a bar on a terminal, else a few lines, both on stderr.

    Args:
        quiet: Whether to show nothing, as in all processes but one.

    Attributes:
        last: The last report; None before the first epoch.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.last: EpochReport | None = None
        self._quiet = quiet
        console = Console(stderr=True)
        self._has_bar = console.is_terminal and not quiet
        words = TextColumn("{task.description}", markup=False)
        self._bar = Progress(BarColumn(8), words, console=console, transient=True, disable=not self._has_bar)
        self._task = self._bar.add_task("first epoch", total=None)

    def __enter__(self) -> EpochProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, report: EpochReport) -> None:
        """Shows an epoch."""
        self.last = report
        if self._has_bar:
            words = epoch_words(report)
            self._bar.update(self._task, total=report.epochs, completed=report.epoch, description=words)
        elif is_due(report.epoch, report.epochs, _LINE_SECONDS):
            self.say(epoch_words(report))

    def say(self, line: str) -> None:
        """Prints a line that stays, above the bar where there is one."""
        if self._has_bar:
            self._bar.print(line, highlight=False, markup=False, soft_wrap=True)
        elif not self._quiet:
            typer.echo(line, err=True)


def epoch_words(report: EpochReport) -> str:
    """An epoch in a few words, short enough for a terminal of 80 columns."""
    validation = f" val {report.val:.4f}" if math.isfinite(report.val) else ""
    speed = f"{report.steps_per_second:.3g} steps/s {duration(report.remaining_seconds)} left"
    epoch = f"epoch {report.epoch}/{report.epochs} loss {report.train_loss:.4f}{validation}"
    return f"{report.run.model} seed {report.run.seed} {epoch} {speed}"


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
    left = f"{duration(report.remaining_seconds)} left"
    return f"{report.run.title}: epoch {report.epoch} of {report.epochs}, loss {report.train_loss:.4f}, {left}"


def _said(result: RunResult, titles: Mapping[str, str]) -> str:
    """The title of a run; that it diverged is said on a line of its own, which stays."""
    title = titles.get(result.key, result.key)
    if result.status == "diverged":
        typer.echo(f"diverged: {title}", err=True)
    return title


def _wait(count: int) -> None:
    typer.echo(
        f"waiting for {counted(count, 'run')} of another process; stop at any time, the same command goes on", err=True
    )
