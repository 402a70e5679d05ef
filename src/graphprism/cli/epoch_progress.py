"""How far training runs have come."""

from __future__ import annotations

import math
from types import TracebackType

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from graphprism.cli.progress import is_due
from graphprism.training import EpochReport

# Lines of one run in a file or a pipe, where a bar cannot move.
_LINES = 8


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
        elif is_due(report.epoch, report.epochs, _LINES):
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


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(8), duration(61), duration(7300)
    ('8 s', '1 min 1 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
