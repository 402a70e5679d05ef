"""Errors that a user can do something about, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def one_sentence() -> Iterator[None]:
    """Prints the message of a wrong input or a missing package on stderr and ends with exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        # The reader of files speaks of its argument, which is an option here.
        typer.echo(f"error: {error}".replace("labels=True", "--labels"), err=True)
        raise typer.Exit(2) from error
