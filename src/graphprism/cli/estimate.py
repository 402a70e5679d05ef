"""``graphprism estimate``."""

from __future__ import annotations

from pathlib import Path

import typer

from graphprism.cli import train_options as option
from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings


def estimate(
    context: typer.Context,
    file: option.RunFile = None,
    dataset: option.Dataset = "molecules",
    model: option.Models = None,
    split: option.Split = None,
    layers: option.Layers = None,
    width: option.Width = None,
    budget: option.Budget = None,
    residual: option.Residual = False,
    jk: option.Jk = None,
    pe: option.Pe = None,
    norm: option.Norm = None,
    dropout: option.Dropout = None,
    batch_size: option.BatchSize = None,
    neighbors: option.Neighbors = None,
    epochs: option.Epochs = None,
    patience: option.Patience = None,
    seeds: option.Seeds = "0",
    folds: option.Folds = "0",
    lr: option.Lr = None,
    precision: option.Precision = None,
    metric: option.Metric = None,
    data: Data = None,
    out: option.Out = Path("outputs"),
    accelerator: option.Accelerator = "auto",
) -> None:
    """Estimate the memory and time of runs by timing a few of their steps.

    Takes the options and run files of `graphprism train`. Exit code 1 if a run does not fit into memory.
    """
    from graphprism.cli.train import options_of

    with exit_on_user_error(), plain_warnings():
        fits = _print(options_of(context))
    if not fits:
        raise typer.Exit(1)


def _print(options: dict[str, object]) -> bool:
    from rich.console import Console

    from graphprism._text import counted, duration, rich_table
    from graphprism.cli.run_training import train_data, train_runs
    from graphprism.training import estimate as estimate_run

    name, dataset = train_data(str(options["dataset"]), options["data"])  # type: ignore[arg-type]
    runs = train_runs({**options, "dataset": name}, dataset)
    # seed, fold and learning rate do not affect the cost
    alike: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        alike.setdefault(run.model, []).append(number)
    found = {
        name: estimate_run(runs[numbers[0]], dataset, accelerator=str(options["accelerator"]))
        for name, numbers in alike.items()
    }
    rows = [
        [
            name,
            f"{each.peak_bytes / 1e9:.2f} GB" + ("" if each.tried else " (rough)"),
            duration(each.epoch_seconds),
            duration(each.seconds),
            duration(each.seconds * len(alike[name])),
        ]
        for name, each in found.items()
    ]
    header = ["model", "peak memory", "an epoch", "a run", "all runs"]
    stop = ", or fewer with early stopping" if runs[0].patience is not None else ""
    caption = f"{counted(runs, 'run')} of {counted(runs[0].epochs, 'epoch')}{stop}, one after another."
    Console().print(rich_table(f"{runs[0].dataset}: estimate", header, rows, caption))
    for name, each in found.items():
        if each.advice:
            typer.echo(f"{name} {each.advice}.")
    return all(each.fits for each in found.values())
