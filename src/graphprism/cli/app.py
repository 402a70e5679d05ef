"""The commands of ``graphprism``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graphprism import __version__


class LazyGroup(TyperGroup):
    """Takes a registered function for one that imports and returns the command: a function, or a `typer.Typer`.

    Lists of commands, ``--version`` and misspelt names so do not wait for torch. The docstring of a registered function
    is shown in the list, and has to be the first sentence of the command's own.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, loaded."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None or listed.callback is None else load(listed.name, listed.callback()), rest


def load(name: str | None, found: Any) -> Any:
    """The command of a function or of an application, as it is below a group."""
    parent = typer.Typer(callback=lambda: None)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name=name)(found)
    return typer.main.get_group(parent).commands[name or ""]


app = typer.Typer(
    name="graphprism",
    cls=LazyGroup,
    help="Split the edges of a graph into relations and keep deep graph networks from collapsing to one signal.",
    no_args_is_help=True,
    # Names of commands, and with them of tables and figures, are the same in any case.
    context_settings={"token_normalize_func": str.lower},
    pretty_exceptions_enable=False,
)


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


@app.command()
def inspect() -> Any:
    """Say which splits distinguish the nodes of a graph or a dataset, and what is proven about them."""
    from graphprism.cli.inspect import inspect

    return inspect


@app.command()
def advise() -> Any:
    """Say which split to train with, or none: certificate, cost and a short paired trial."""
    from graphprism.cli.advise import advise

    return advise


@app.command()
def split() -> Any:
    """Split the edges of a file that does not fit into memory into relations."""
    from graphprism.cli.split import split

    return split


@app.command()
def train() -> Any:
    """Train models on graphs or on the nodes of one graph, and compare each MRS model with its plain partner."""
    from graphprism.cli.train import train

    return train


@app.command()
def estimate() -> Any:
    """Say how much memory and time runs will take, by timing a few of their steps."""
    from graphprism.cli.estimate import estimate

    return estimate


@app.command()
def tune() -> Any:
    """Search for good settings with Optuna: trials that fall behind on validation are stopped early."""
    from graphprism.cli.tune import tune

    return tune


@app.command()
def predict() -> Any:
    """Predict new graphs, nodes or links with a trained run, and write a CSV file."""
    from graphprism.cli.predict import predict

    return predict


@app.command()
def reproduce() -> Any:
    """Compute a figure or table of the paper."""
    from graphprism.cli.reproduce import app

    return app


@app.command()
def figure() -> Any:
    """Draw a figure of the theory."""
    from graphprism.cli.figure import app

    return app


@app.command()
def data() -> Any:
    """Find, fetch, pack and check data sets."""
    from graphprism.cli.data import app

    return app


@app.command()
def report() -> Any:
    """Make one HTML page of all results: tables beside the paper's, loss curves and every run."""
    from graphprism.cli.report import report

    return report


@app.command()
def play() -> Any:
    """Write a page to play with: signals on a graph through up to 128 layers, with and without a split."""
    from graphprism.cli.play import play

    return play


@app.command()
def doctor() -> Any:
    """Print versions, devices, which backends run here and why others do not."""
    from graphprism.cli.doctor import doctor

    return doctor
