"""Progress of commands on stderr."""

from __future__ import annotations

import math
from time import monotonic
from types import TracebackType

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graphprism._text import counted, duration
from graphprism.training import METRICS, EpochReport


def is_due(done: int, total: int, lines: int) -> bool:
    """Whether to print a line now, such that at most ``lines`` are printed, evenly spaced and one at the end.

    >>> [done for done in range(1, 11) if is_due(done, 10, 4)]
    [3, 5, 8, 10]
    """
    return done * lines // total > (done - 1) * lines // total


# Number of lines if stderr is no terminal, and seconds between those of epochs.
_LINES = 4
_SECONDS = 30.0


class StepProgress:
    """Shows finished steps on stderr: a bar with the latest epoch on a terminal, else a few lines.

    Args:
        total: Number of steps.
        noun: Name of a step.
    """

    def __init__(self, total: int, noun: str = "run") -> None:
        self._total, self._noun, self._done = max(total, 1), noun, 0
        self._shown_at = monotonic()
        console = Console(stderr=True)
        self._has_bar = console.is_terminal
        columns = (BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not self._has_bar)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> StepProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._bar.stop()

    def advance(self, title: str) -> None:
        """Counts a finished step."""
        self._done += 1
        if self._has_bar:
            self._bar.update(self._task, advance=1, description=escape(title))
        elif is_due(self._done, self._total, _LINES):
            typer.echo(f"{self._done} of {counted(self._total, self._noun)} done", err=True)

    def epoch(self, report: EpochReport) -> None:
        """Shows a finished epoch; in a log at most one in half a minute, since a run may take hours."""
        if self._has_bar:
            left = f"{duration(report.remaining_seconds)} left"
            epoch = f"epoch {report.epoch} of {report.epochs}, loss {report.train_loss:.4f}, {left}"
            self._bar.update(self._task, description=escape(f"{report.run.title}: {epoch}"))
        elif (now := monotonic()) - self._shown_at >= _SECONDS:
            self._shown_at = now
            typer.echo(epoch_line(report), err=True)

    def say(self, line: str) -> None:
        """Prints a permanent line."""
        typer.echo(line, err=True)


# Number of lines of one run if stderr is no terminal.
_LINE_SECONDS = 8


class EpochProgress:
    """Callback that shows the `EpochReport` of each epoch on stderr: a bar on a terminal, else a few lines.

    Args:
        quiet: Whether to show nothing, as on all ranks but 0.

    Attributes:
        metric: Name of the scores, for their unit; None prints them without one.
        last: The last report; None before the first epoch.
        has_bar: Whether it is a bar on a terminal.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.metric: str | None = None
        self.last: EpochReport | None = None
        self._quiet = quiet
        console = Console(stderr=True)
        self.has_bar = console.is_terminal and not quiet
        text = TextColumn("{task.description}", markup=False)
        self._bar = Progress(BarColumn(8), text, console=console, transient=True, disable=not self.has_bar)
        self._task = self._bar.add_task("first epoch", total=None)

    def __enter__(self) -> EpochProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, report: EpochReport) -> None:
        """Shows an epoch."""
        self.last = report
        if self.has_bar:
            line = epoch_line(report, self.metric)
            self._bar.update(self._task, total=report.epochs, completed=report.epoch, description=line)
        elif is_due(report.epoch, report.epochs, _LINE_SECONDS):
            self.say(epoch_line(report, self.metric))

    def say(self, line: str) -> None:
        """Prints a permanent line, above the bar if there is one."""
        if self.has_bar:
            self._bar.print(line, highlight=False, markup=False, soft_wrap=True)
        elif not self._quiet:
            typer.echo(line, err=True)


def epoch_line(report: EpochReport, metric: str | None = None) -> str:
    """An epoch in a few words, short enough for a terminal of 80 columns; percentages with their sign."""
    is_percent = metric is not None and METRICS[metric].is_percent
    score = f"{report.val:.2f} %" if is_percent else f"{report.val:.4f}"
    validation = f" val {score}" if math.isfinite(report.val) else ""
    speed = f"{report.steps_per_second:.3g} steps/s {duration(report.remaining_seconds)} left"
    epoch = f"epoch {report.epoch}/{report.epochs} loss {report.train_loss:.4f}{validation}"
    return f"{report.run.model} seed {report.run.seed} {epoch} {speed}"
