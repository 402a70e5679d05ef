"""``graphprism figure``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphprism.cli.arguments import Data, GraphName, Labels, Undirected, exit_on_user_error

app = typer.Typer(help="Draw a graph and its relations.", no_args_is_help=True)


@app.callback()
def figure() -> None:
    """Makes `app` a group of commands although it has only one."""


@app.command()
def split(
    graph: GraphName,
    split: Annotated[str, typer.Option(help='The split, such as "degree" or "degree, ppr * direction".')] = "degree",
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write: .png or .svg.")] = Path("split.png"),
    undirected: Undirected = False,
    labels: Labels = False,
    data: Data = None,
) -> None:
    """Draw a graph beside each of its relations: up, down and tie."""
    with exit_on_user_error():
        from graphprism.experiments.find_graph import find_graph
        from graphprism.plotting import check_format, draw_split, save_figure

        check_format(out)
        found = find_graph(graph, data, labels=labels, undirected=undirected)
        save_figure(draw_split(found, split, title=f"{Path(graph).name}, split by {split}"), out)
    typer.echo(f"The picture is in {out}.")
