"""The commands of ``graphprism``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graphprism import __version__


class LazyGroup(TyperGroup):
    """Loads commands lazily: a registered function imports and returns the command, a function or a `typer.Typer`.

    Thus the list of commands, ``--version`` and misspelt names do not import torch. The list shows the docstring of the
    registered function, which must be the first sentence of the command's own.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolves and loads the command."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None or listed.callback is None else load(listed.name, listed.callback()), rest


def load(name: str | None, found: Any) -> Any:
    """The command of a function or of a `typer.Typer`, as a member of a group."""
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
    # Names of commands, tables and figures are case-insensitive.
    context_settings={"token_normalize_func": str.lower},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"graphprism {__version__}")
        raise typer.Exit


def _import(files: list[Path]) -> None:
    """Runs the user's files, which register layers and orderings."""
    for file in files:
        if not file.is_file():
            raise typer.BadParameter(f"{file}: there is no such file", param_hint="--import")
        name = f"imported_{file.stem}"  # not that of a module which the file's own imports may mean
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise typer.BadParameter(f"{file}: must be a file of Python, FILE.py", param_hint="--import")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


@app.callback()
def options(
    imports: Annotated[
        list[Path] | None,
        typer.Option(
            "--import",
            metavar="FILE.py",
            help="Run a file of yours first, which registers layers (nn.register_convolution) or orderings "
            "(splitting.register_ordering).",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command; typer prints the help of `app` instead of this line."""
    _import(imports or [])


@app.command()
def inspect() -> Any:
    """Show which splits distinguish the nodes of a graph or a data set, with certificates."""
    from graphprism.cli.inspect import inspect

    return inspect


@app.command()
def advise() -> Any:
    """Recommend a split to train with, or none: certificate, cost and a short paired trial."""
    from graphprism.cli.advise import advise

    return advise


@app.command()
def split() -> Any:
    """Split the edges of a file into relations, also if they do not fit into memory."""
    from graphprism.cli.split import split

    return split


@app.command()
def train() -> Any:
    """Train models on graphs or on the nodes of one graph, and compare each MRS model with its plain partner."""
    from graphprism.cli.train import train

    return train


@app.command()
def estimate() -> Any:
    """Estimate the memory and time of runs by timing a few of their steps."""
    from graphprism.cli.estimate import estimate

    return estimate


@app.command()
def tune() -> Any:
    """Search hyper-parameters with Optuna; trials with poor validation scores are stopped early."""
    from graphprism.cli.tune import tune

    return tune


@app.command()
def predict() -> Any:
    """Predict new graphs, nodes or links with a trained model, and write a CSV file."""
    from graphprism.cli.predict import predict

    return predict


@app.command()
def reproduce() -> Any:
    """Compute a figure or table of the paper."""
    from graphprism.cli.reproduce import app

    return app


@app.command()
def figure() -> Any:
    """Draw a graph and its relations."""
    from graphprism.cli.figure import app

    return app


@app.command()
def data() -> Any:
    """List, download, import, pack and verify data sets."""
    from graphprism.cli.data import app

    return app


@app.command()
def report() -> Any:
    """Write one HTML page of all results: tables beside the paper's, loss curves and every run."""
    from graphprism.cli.report import report

    return report


@app.command()
def play() -> Any:
    """Write an interactive page: signals on a graph through up to 128 layers, with and without a split."""
    from graphprism.cli.play import play

    return play


@app.command()
def doctor() -> Any:
    """Print versions, devices and backends, and why a backend is not available."""
    from graphprism.cli.doctor import doctor

    return doctor
