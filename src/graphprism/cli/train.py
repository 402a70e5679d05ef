"""``graphprism train``; torch is imported after the options are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from graphprism.cli import train_options as option
from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings


def train(
    context: typer.Context,  # holds all options below by name; `train_runs` turns them into runs
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
    pe_encoder: option.PeEncoder = None,
    walk_steps: option.WalkSteps = None,
    edge_walks: option.EdgeWalks = False,
    ffn: option.Ffn = False,
    activation: option.Activation = None,
    edge_dropout: option.EdgeDropout = False,
    split_layers: option.SplitLayers = None,
    remedy: option.Remedy = None,
    head_layers: option.HeadLayers = None,
    head: option.Head = None,
    head_activation: option.HeadActivation = None,
    norm: option.Norm = None,
    dropout: option.Dropout = None,
    start: option.Start = None,
    decay: option.Decay = None,
    learned_split: option.LearnedSplit = False,
    deviation: option.Deviation = None,
    self_loops: option.SelfLoops = None,
    undirected: option.Undirected = None,
    alpha: option.Alpha = None,
    optimizer: option.Optimizer = None,
    lr: option.Lr = None,
    weight_decay: option.WeightDecay = None,
    clip: option.Clip = None,
    schedule: option.Schedule = None,
    warmup: option.Warmup = None,
    batch_size: option.BatchSize = None,
    neighbors: option.Neighbors = None,
    epochs: option.Epochs = None,
    patience: option.Patience = None,
    seeds: option.Seeds = "0",
    folds: option.Folds = "0",
    precision: option.Precision = None,
    metric: option.Metric = None,
    class_weights: option.ClassWeights = None,
    data: Data = None,
    out: option.Out = Path("outputs"),
    accelerator: option.Accelerator = "auto",
    devices: option.Devices = 1,
    nodes: option.Nodes = 1,
    engine: option.Engine = "auto",
    fresh: option.Fresh = False,
    log: option.Log = None,
    save: option.Save = None,
) -> None:
    """Train models on graphs or on the nodes of one graph, and compare each MRS model with its plain partner.

    Without options: gcn and mrs-gcn on generated molecules, about a minute. Appends results to FOLDER/ledger.jsonl.
    The table has the smallest training loss of all epochs, and the scores of the epoch of best validation.
    Interrupted runs are resumed, finished ones are read from the ledger. Exit code 1 if a run diverged.
    """
    try:
        from graphprism.cli.run_training import run_training

        with exit_on_user_error(), plain_warnings():
            run_training(options_of(context))
    except KeyboardInterrupt:
        typer.echo("stopped before an epoch was finished; the same command starts where this one did", err=True)
        raise typer.Exit(130) from None


def options_of(context: typer.Context) -> dict[str, Any]:
    """All options by name; precedence: command line, run file, defaults."""
    options = dict(context.params)
    file = options.pop("file", None)
    if file is None:
        return options
    from graphprism.cli.run_file import merged_options, read_run_file

    # by name: newer versions of typer have their own copy of click
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in options}
    typed = {name for name, source in sources.items() if source == "COMMANDLINE"}
    return merged_options(options, set(options) - typed, read_run_file(file, list(options)))
