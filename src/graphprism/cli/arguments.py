"""Arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# `graphprism.datasets.DATA_VARIABLE`, which would load torch; a test holds the two together.
DATA_VARIABLE = "GRAPHPRISM_DATA"

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
Labels = Annotated[bool, typer.Option("--labels", help="Nodes of an edge list have names, not numbers.")]
Undirected = Annotated[bool, typer.Option("--undirected", help="The file names an edge once: add the way back.")]
