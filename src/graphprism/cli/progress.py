"""How far a command has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
