"""The commands of ``graphprism``."""

from __future__ import annotations

from typing import Annotated

import typer

from graphprism import __version__
from graphprism.cli import data, figure, inspect, reproduce

app = typer.Typer(
    name="graphprism",
    help="Split the edges of a graph into relations and keep deep graph networks from collapsing to one signal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(name="inspect")(inspect.inspect)
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(figure.app, name="figure")
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphprism {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options before the command; typer prints the help of `app` instead of this line."""
