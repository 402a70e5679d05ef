"""Arguments that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from graphprism.known import DATA_VARIABLE, DATASETS, data_folder

GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="An edge list (csv, tsv, spaces; gz), GraphML or packed .npz; a dataset's name; molecule or molecule:7.",
    ),
]
Data = Annotated[
    Path | None, typer.Option(envvar=DATA_VARIABLE, metavar="FOLDER", help="Folder of packed datasets, NAME.npz.")
]
Labels = Annotated[
    bool, typer.Option("--labels", help="Nodes of an edge list are names, also where they look like numbers.")
]
Undirected = Annotated[bool, typer.Option("--undirected", help="The file names an edge once: add the way back.")]


@contextmanager
def exit_on_user_error() -> Iterator[None]:
    """Prints the message of a wrong input or a missing package on stderr and ends with exit code 2."""
    try:
        yield
    except (ValueError, ImportError, OSError) as error:
        # The reader of files speaks of its argument, which is an option here.
        typer.echo(f"error: {error}".replace("labels=True", "--labels"), err=True)
        raise typer.Exit(2) from error


def complete_dataset(incomplete: str) -> list[str]:
    """Names of data sets that begin so, for the shell."""
    there = {*DATASETS, *(path.stem for path in data_folder().glob("*.npz"))}
    return sorted(name for name in there if name.lower().startswith(incomplete.lower()))


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word; empty where nothing is close.

    >>> suggest("mrs-gnc", ["gcn", "mrs-gin", "mrs-gcn"])
    '; did you mean mrs-gcn?'
    >>> suggest("transformer", ["gcn", "mrs-gcn"])
    ''
    """
    close = get_close_matches(word.lower(), list(known), n=3)
    # Two letters in each other's place are the likelier slip than one wrong letter, and difflib rates them the same.
    swapped = [each for each in close if sorted(each) == sorted(word.lower())]
    return f"; did you mean {(swapped or close)[0]}?" if close else ""
