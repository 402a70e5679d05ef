"""``graphprism advise``."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphprism.adviser import advise as find_advice
from graphprism.adviser.advice import default_run
from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings
from graphprism.cli.run_training import train_data
from graphprism.known import DATA_VARIABLE
from graphprism.nn import CONVOLUTIONS
from graphprism.training import Run


def advise(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="A name that `graphprism data list` shows, or FILE.npz.")
    ],
    split: Annotated[
        list[str] | None, typer.Option(help="A split to try; may be repeated. Default: those that suit the data.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The plain model, such as gcn or sage.")] = None,
    layers: Annotated[int | None, typer.Option(help="Number of convolutions.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time limit of the trial in seconds; 0 skips it.")] = 60.0,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    data: Data = None,
) -> None:
    """Recommend a split to train with, or none: certificate, cost and a short paired trial.

    The plain model and the splits are trained with the same seeds, on a subset of the data if it is large. Prints one
    recommendation with its evidence and confidence, and lists what was not tested.
    """
    with exit_on_user_error(), plain_warnings():
        dataset, found = train_data(dataset, data)
        run = replace(default_run(found), dataset=dataset)
        run = replace(run, model=model or run.model, layers=layers or run.layers)
        advice = find_advice(found, run=run, splits=split, seconds=seconds, accelerator=accelerator)
    if as_json:
        typer.echo(advice.to_json())
    else:
        Console().print(advice)
        typer.echo(f"Train it in full: {_command(advice.run, data)}")


def _command(run: Run, data: Path | None) -> str:
    """The shell command that trains a run and its plain partner, on data in the folder that the user named."""
    convolution = CONVOLUTIONS[run.model]
    models = f"{convolution.partner},{run.model}" if convolution.relational else run.model
    options = ["--dataset", run.dataset, "--model", models, "--layers", str(run.layers)]
    if convolution.relational:
        options += ["--split", run.split, "--start", run.start]
    options += ["--seeds", "0..2"]
    if data is not None and os.environ.get(DATA_VARIABLE) != str(data):
        options += ["--data", str(data)]
    return shlex.join(["graphprism", "train", *options])
