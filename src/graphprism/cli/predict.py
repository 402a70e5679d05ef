"""``graphprism predict``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from graphprism._text import counted
from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings
from graphprism.results import ACCELERATORS


def predict(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder of results (the best run by validation is used), folder of one run, or best.pt.",
        ),
    ],
    input: Annotated[
        str,
        typer.Option(
            "--input", "-i", metavar="PATH", help="New graphs: files as for `graphprism data import`, or .npz."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.csv", help="File to write, one row per prediction.")
    ],
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The graph that new nodes belong to: files, the .npz of `graphprism data import`, or its name in the "
            "folder --data; files alone for links. Default: the input is complete.",
        ),
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Pairs of ids to predict; for link models.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="NAME", help="File of nodes.", show_default="as in training, or guessed")
    ] = None,
    edges: Annotated[
        str | None, typer.Option(metavar="NAME", help="File of edges.", show_default="as in training, or guessed")
    ] = None,
    graphs: Annotated[
        str | None, typer.Option(metavar="NAME", help="File of graphs.", show_default="as in training, or guessed")
    ] = None,
    data: Data = None,
    accelerator: Annotated[str, typer.Option(metavar="|".join(ACCELERATORS), help="The kind of device.")] = "auto",
) -> None:
    """Predict new graphs, nodes or links with a trained model, and write a CSV file.

    Columns, categories, scales and the split of edges are those of training, which the run stores.
    """
    with exit_on_user_error(), plain_warnings():
        from graphprism.training import load

        files = {part: file for part, file in (("nodes", nodes), ("edges", edges), ("graphs", graphs)) if file}
        predictor = load(run, accelerator)
        found = predictor.predict(input, graph=graph, pairs=pairs, files=files, root=data)
        found.write_csv(out)
    count = int((~found.scores.isnan().all(dim=1)).sum())
    typer.echo(f"{predictor.run.title}: {counted(count, 'prediction')} in {out}.")
    for line in found.notices:
        typer.echo(line)
    for name, count in _balance(found.classes):
        typer.echo(f"  {name}: {count:,}")


def _balance(classes: list[tuple[str, ...]] | None) -> list[tuple[str, int]]:
    """Number of predictions of each class, most frequent first; empty for regression and multi-label tasks."""
    if not classes or len(classes[0]) != 1:
        return []
    return Counter(each[0] for each in classes if each[0]).most_common(10)
