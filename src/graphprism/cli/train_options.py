"""The options of ``graphprism train``; loads no torch, so that help and errors come at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphprism.cli.arguments import complete_dataset
from graphprism.protocols import DATASET_DEFAULTS, NODE_PROTOCOL, PROTOCOL
from graphprism.results import ACCELERATORS, ENGINES

# The names of `graphprism.nn.models.CONVOLUTIONS`; a test holds the two together.
MODELS = (
    *(f"{form}{layer}" for layer in ("gcn", "sage", "gat", "gin", "gated-gcn") for form in ("", "mrs-")),
    "mrs-gated-gcn-9",
    *(f"{form}{layer}" for layer in ("gcne", "gine") for form in ("", "mrs-")),
    "gat-degree",
    "lmgc",
    "mlp",
    *(f"{form}{layer}" for layer in ("gcn", "sage", "gat") for form in ("dir-", "mrs-dir-")),
    "pyg-gcn",
    "pyg-rgcn",
)


def shown_default(name: str) -> str:
    """The default of an option in words, for its help.

    >>> shown_default("layers")
    '8; 6 on molecules; 2 on nodes'
    >>> shown_default("split")
    'degree'
    """
    others = [f"{values[name]} on {dataset}" for dataset, values in DATASET_DEFAULTS.items() if name in values]
    if NODE_PROTOCOL.get(name, PROTOCOL[name]) != PROTOCOL[name]:
        others.append(f"{'the whole graph' if name == 'batch_size' else NODE_PROTOCOL[name]} on nodes")
    return "; ".join([str(PROTOCOL[name]), *others])


def _network(name: str, help: str, metavar: str | None = None) -> Any:
    return _setting(name, help, metavar, "Network")


def _training(name: str, help: str, metavar: str | None = None) -> Any:
    return _setting(name, help, metavar, "Training")


def _setting(name: str, help: str, metavar: str | None, panel: str) -> Any:
    """An option that is None where it is not given, because its default depends on the data set."""
    default = shown_default(name) if name in PROTOCOL else False
    return typer.Option(help=help, metavar=metavar, show_default=default, rich_help_panel=panel)


_WHERE = "Where and how it runs"


def complete_models(incomplete: str) -> list[str]:
    """Names of models that the last one begins, after those before it, for the shell.

    >>> complete_models("gcn,mrs-sa")
    ['gcn,mrs-sage']
    """
    before, comma, last = incomplete.rpartition(",")
    return sorted(f"{before}{comma}{name}" for name in MODELS if name.startswith(last))


Dataset = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="A name that `graphprism data list` shows, or FILE.npz.",
        autocompletion=complete_dataset,
    ),
]
Models = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        autocompletion=complete_models,
        help="Between commas: gcn, sage, gat, gin, gated-gcn, gcne, gine, each as mrs-NAME; dir-gcn, dir-sage, "
        "dir-gat, each as mrs-NAME, for directed graphs; mlp.",
        show_default="gcn,mrs-gcn; dir-gcn,mrs-dir-gcn on directed graphs",
    ),
]

Split = Annotated[
    str | None,
    _network(
        "split",
        "How MRS models split edges: degree; degree, ppr (PageRank decides ties); degree * attr(edge_attr) (product); "
        "one for each layer between semicolons.",
        "SPLIT",
    ),
]
Layers = Annotated[int | None, _network("layers", "Number of convolutions.")]
Width = Annotated[int | None, _network("width", "Channels of a layer; without it the most that --budget allows.")]
Budget = Annotated[int | None, _network("budget", "Parameters at most, which makes models comparable.")]
Residual = Annotated[bool, typer.Option("--residual", help="A layer adds its input.", rich_help_panel="Network")]
Jk = Annotated[str | None, _network("jk", "Read out all layers; without it the last one.", "cat|max|lstm")]
Pe = Annotated[int | None, _network("pe", "Number of Laplacian positional features.")]
PeEncoder = Annotated[
    str | None,
    _network("pe_encoder", "Encode positions: Laplacian pairs as a set, or random walks (RWSE).", "deepset|walk"),
]
WalkSteps = Annotated[int | None, _network("walk_steps", "Longest random walk of --pe-encoder walk.")]
EdgeWalks = Annotated[
    bool, typer.Option("--edge-walks", help="Random walks as features of edges, too.", rich_help_panel="Network")
]
Ffn = Annotated[bool, typer.Option("--ffn", help="A layer ends in a feed-forward block.", rich_help_panel="Network")]
Activation = Annotated[str | None, _network("activation", "Of the layers.", "relu|gelu")]
EdgeDropout = Annotated[
    bool, typer.Option("--edge-dropout", help="Dropout of the states of edges, too.", rich_help_panel="Network")
]
SplitLayers = Annotated[
    str | None, _network("split_layers", "Which layers of MRS models split: a half or all.", "all|early|late")
]
HeadLayers = Annotated[int | None, _network("head_layers", "Linear maps after the readout.")]
Head = Annotated[str | None, _network("head", "Widths of several of them.", "halving|constant")]
HeadActivation = Annotated[str | None, _network("head_activation", "Between them.", "relu|gelu")]
Norm = Annotated[str | None, _network("norm", "A PyG normalisation before ReLU: batch, layer, ...; none without it.")]
Dropout = Annotated[float | None, _network("dropout", "Share of channels dropped in training.")]
Start = Annotated[
    str | None, _network("start", "How relations of MRS models begin: as one, or apart.", "shared|independent")
]
Decay = Annotated[
    float | None,
    _network("decay", "How much stronger a shared start holds what sets relations apart; 0 frees them."),
]
Deviation = Annotated[
    str | None,
    _network("deviation", "What sets relations apart: matrices, or a factor for each channel.", "full|diagonal"),
]

LearnedSplit = Annotated[
    bool,
    typer.Option(
        "--learned-split", help="Scores of relations are trained, from --split (MRS models).", rich_help_panel="Network"
    ),
]

Alpha = Annotated[
    float | None, typer.Option(help="Share of the nodes that a node points to (dir-).", rich_help_panel="Network")
]

Optimizer = Annotated[str | None, _training("optimizer", "What takes the steps.", "adamw|adam")]
Lr = Annotated[str | None, _training("lr", "Largest learning rate; a run for each of several.", "NUMBERS")]
WeightDecay = Annotated[float | None, _training("weight_decay", "Of the optimiser.")]
Clip = Annotated[float | None, _training("clip", "Largest norm of the gradient; 0 does not clip.")]
Schedule = Annotated[str | None, _training("schedule", "Of the learning rate.", "cosine|constant")]
Warmup = Annotated[int | None, _training("warmup", "Epochs in which the learning rate grows from 0.")]
BatchSize = Annotated[int | None, _training("batch_size", "Graphs in a batch, or nodes or pairs with --neighbors.")]
Neighbors = Annotated[
    int | None,
    typer.Option(
        min=-1,
        help="Neighbours sampled of every node in each layer, -1 for all, in batches of --batch-size nodes or pairs.",
        show_default="the whole graph at once",
        rich_help_panel="Training",
    ),
]
Epochs = Annotated[int | None, _training("epochs", "Passes over the training set, at most.")]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Stop after so many epochs without a better validation score.",
        show_default="never; 200 on nodes",
        rich_help_panel="Training",
    ),
]
Folds = Annotated[
    str,
    typer.Option(metavar="NUMBERS", help="A run for each official fold: 0, or 0..9.", rich_help_panel="Training"),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="What validation compares: mae, rmse, auroc, ap, accuracy, f1, hits@50.",
        show_default="of the data set",
        rich_help_panel="Training",
    ),
]
ClassWeights = Annotated[
    str | None,
    typer.Option(metavar="balanced", help="Rare classes count as much as others.", rich_help_panel="Training"),
]
Precision = Annotated[str | None, _training("precision", "Of the numbers.", "float32|bf16|float64")]
Seeds = Annotated[
    str,
    typer.Option(
        metavar="NUMBERS",
        help="A run for each: 0, or 0..8 (both ends are in it), or 0,1,5.",
        rich_help_panel="Training",
    ),
]

RunFile = Annotated[
    Path | None,
    typer.Argument(metavar="[RUN.toml]", help="A file with options, as --save writes it; options here come before it."),
]
Log = Annotated[
    str | None,
    typer.Option(metavar="csv|tensorboard", help="Every epoch, in FOLDER/logs.", rich_help_panel=_WHERE),
]
Save = Annotated[
    Path | None, typer.Option(metavar="RUN.toml", help="Write all settings to a run file.", rich_help_panel=_WHERE)
]

Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Gets ledger.jsonl and the checkpoints.", rich_help_panel=_WHERE)
]
Accelerator = Annotated[
    str, typer.Option(metavar="|".join(ACCELERATORS), help="The kind of device.", rich_help_panel=_WHERE)
]
Devices = Annotated[int, typer.Option(min=1, help="Devices of a machine that share a run.", rich_help_panel=_WHERE)]
Nodes = Annotated[int, typer.Option(min=1, help="Machines that share a run.", rich_help_panel=_WHERE)]
Engine = Annotated[
    str,
    typer.Option(
        metavar="|".join(ENGINES),
        help="Steps by Python, or captured on a GPU and all runs at once; auto captures where it can.",
        rich_help_panel=_WHERE,
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Forget checkpoints and finished runs: begin anew.", rich_help_panel=_WHERE)
]
