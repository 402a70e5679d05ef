"""``graphprism reproduce``: a command for every experiment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings
from graphprism.cli.listed_experiments import LISTED

if TYPE_CHECKING:
    from graphprism.cli.listed_experiments import ListedExperiment
    from graphprism.experiments import Experiment

# Text width if stdout is no terminal; six columns of numbers fit.
_WIDTH = 100
# Exit code of a command ended by Ctrl-C.
_INTERRUPTED = 130
# Options of all experiments.
_SHARED = {
    "data": (Data, None),
    "out": (
        Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the ledger, checkpoints, tables and figures.")],
        Path("outputs"),
    ),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Print what would run, and exit.")], False),
    "resume": (Annotated[bool, typer.Option("--resume", help="Resume an interrupted call; always on.")], True),
}

app = typer.Typer(help="Compute a figure or table of the paper.", no_args_is_help=True)


@app.callback()
def reproduce() -> None:
    """Makes `app` a group."""


def run_experiment(
    experiment: Experiment | ListedExperiment, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool
) -> None:
    """Runs an experiment and prints its result and its files; with ``dry_run`` prints the plan only."""
    with exit_on_interrupt(), exit_on_user_error(), plain_warnings():
        from graphprism.cli.progress import StepProgress

        job = experiment.prepare(options, data, out, dry_run)
        if dry_run:
            typer.echo("\n".join(job.plan()))
            return
        with StepProgress(job.steps, job.noun) as progress:
            output = job.run(progress)
    Console(width=None if Console().is_terminal else _WIDTH).print(output.shown)
    typer.echo(f"Written: {', '.join(map(str, output.files))}.")


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Turns Ctrl-C into a message and the exit code of an interrupted command."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped; the same command resumes", err=True)
        raise typer.Exit(_INTERRUPTED) from None


def command_of(experiment: Experiment | ListedExperiment) -> Callable[..., None]:
    """The command of an experiment: a function with its options as signature, which typer reads."""

    def command(**values: Any) -> None:
        options = {option.name: values[option.name] for option in experiment.options}
        run_experiment(experiment, options, values["data"], values["out"], values["dry_run"])

    own = {each.name: (Annotated[each.kind, typer.Option(help=each.help)], each.default) for each in experiment.options}
    parameters = {**own, **_SHARED}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in parameters.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    return command


for _experiment in LISTED:
    app.command(_experiment.name, help=_experiment.help)(command_of(_experiment))
