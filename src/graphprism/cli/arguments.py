"""Arguments that several commands share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphprism.known import DATA_VARIABLE, DATASETS, data_folder

GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="An edge list (csv, tsv, spaces; gz), GraphML or packed .npz; a data set's name; molecule or molecule:7.",
    ),
]
Data = Annotated[
    Path | None, typer.Option(envvar=DATA_VARIABLE, metavar="FOLDER", help="Folder of packed data sets, NAME.npz.")
]
Labels = Annotated[bool, typer.Option("--labels", help="Read nodes of an edge list as names even if they are numbers.")]
Undirected = Annotated[bool, typer.Option("--undirected", help="Add the reverse of each edge.")]


@contextmanager
def exit_on_user_error() -> Iterator[None]:
    """Prints the message of an invalid input or a missing package to stderr; exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        # The message of `read_graph` names its argument, which is an option here.
        typer.echo(f"error: {error}".replace("labels=True", "--labels"), err=True)
        raise typer.Exit(2) from error


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Prints warnings without the source line that issued them, each sentence once, however many runs it is about."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            typer.echo(f"warning: {message}", err=True)
        shown.add(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def complete_dataset(incomplete: str) -> list[str]:
    """Shell completion of names of data sets."""
    there = {*DATASETS, *(path.stem for path in data_folder().glob("*.npz"))}
    return sorted(name for name in there if name.lower().startswith(incomplete.lower()))
