"""The options of ``graphprism train``; does not import torch, so that help and errors are immediate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphprism.cli.arguments import complete_dataset
from graphprism.protocols import DATASET_DEFAULTS, NODE_PROTOCOL, PROTOCOL
from graphprism.results import ACCELERATORS, ENGINES

# The names of `graphprism.nn.models.CONVOLUTIONS`; a test compares the two.
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
    """Text of an option's default, for its help.

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
    """An option whose value is None by default, because its default depends on the data set."""
    default = shown_default(name) if name in PROTOCOL else False
    return typer.Option(help=help, metavar=metavar, show_default=default, rich_help_panel=panel)


_WHERE = "Execution"


def complete_models(incomplete: str) -> list[str]:
    """Shell completion of the last name in a comma-separated list of models.

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
        help="Comma-separated: gcn, sage, gat, gin, gated-gcn, gcne, gine, each as mrs-NAME; dir-gcn, dir-sage, "
        "dir-gat, each as mrs-NAME, for directed graphs; mlp.",
        show_default="gcn,mrs-gcn; dir-gcn,mrs-dir-gcn on directed graphs",
    ),
]

Split = Annotated[
    str | None,
    _network(
        "split",
        "Split of MRS models: degree; degree, ppr (PageRank breaks ties); degree * attr(edge_attr) (product); "
        "one per layer, separated by semicolons.",
        "SPLIT",
    ),
]
Layers = Annotated[int | None, _network("layers", "Number of convolutions.")]
Width = Annotated[
    int | None,
    _network("width", "Channels of a layer. Default: the most that --budget allows; else on nodes 64, directed 128."),
]
Budget = Annotated[int | None, _network("budget", "Maximum number of parameters, to make models comparable.")]
Residual = Annotated[bool, typer.Option("--residual", help="Residual connections.", rich_help_panel="Network")]
Jk = Annotated[
    str | None, _network("jk", "Jumping knowledge over all layers. Default: last layer only.", "cat|max|lstm")
]
Pe = Annotated[int | None, _network("pe", "Number of positional features, Laplacian ones without --pe-encoder.")]
PeEncoder = Annotated[
    str | None,
    _network(
        "pe_encoder",
        "Encoder of the --pe features: DeepSet of Laplacian eigenpairs, or --walk-steps random walks.",
        "deepset|walk",
    ),
]
WalkSteps = Annotated[int | None, _network("walk_steps", "Longest random walk of --pe-encoder walk (RWSE).")]
EdgeWalks = Annotated[
    bool, typer.Option("--edge-walks", help="Random walks as edge features, too.", rich_help_panel="Network")
]
Ffn = Annotated[
    bool, typer.Option("--ffn", help="Feed-forward block after each convolution.", rich_help_panel="Network")
]
Activation = Annotated[str | None, _network("activation", "Activation of the layers.", "relu|gelu")]
EdgeDropout = Annotated[
    bool, typer.Option("--edge-dropout", help="Dropout of edge states, too.", rich_help_panel="Network")
]
SplitLayers = Annotated[
    str | None,
    _network("split_layers", "Layers of MRS models with a split: all, or the first or last half.", "all|early|late"),
]
Remedy = Annotated[
    str | None,
    _network(
        "remedy",
        "Remedy of other authors in every layer: g2, pairnorm, dropedge or a-dgn of gcn and mrs-gcn; gcnii or fagcn of "
        "gcn. Default: none.",
        "NAME",
    ),
]
HeadLayers = Annotated[int | None, _network("head_layers", "Linear layers of the head.")]
Head = Annotated[str | None, _network("head", "Widths of the head's hidden layers.", "halving|constant")]
HeadActivation = Annotated[str | None, _network("head_activation", "Activation of the head.", "relu|gelu")]
Norm = Annotated[
    str | None, _network("norm", "PyG normalisation before the activation: batch, layer, ... Default: none.")
]
Dropout = Annotated[float | None, _network("dropout", "Dropout probability of channels.")]
Start = Annotated[str | None, _network("start", "Initial weights of relations in MRS models.", "shared|independent")]
Decay = Annotated[
    float | None,
    _network("decay", "How strongly a shared start ties the relations to their common weights; 0: not at all."),
]
Deviation = Annotated[
    str | None,
    _network(
        "deviation",
        "Difference between relations with a shared start: a matrix, or a factor per channel.",
        "full|diagonal",
    ),
]

LearnedSplit = Annotated[
    bool,
    typer.Option(
        "--learned-split", help="Learn the relations, initialised by --split (MRS models).", rich_help_panel="Network"
    ),
]

SelfLoops = Annotated[
    bool | None,
    typer.Option(
        "--self-loops/--no-self-loops",
        help="Give every node an edge to itself, before the split (nodes and links).",
        show_default="on; off on directed graphs",
        rich_help_panel="Network",
    ),
]
Undirected = Annotated[
    bool | None,
    typer.Option(
        "--undirected/--no-undirected",
        help="Add the reverse of each edge, before the split (nodes and links).",
        show_default="edges as they are",
        rich_help_panel="Network",
    ),
]

Alpha = Annotated[
    float | None,
    typer.Option(help="Weight of out-neighbours against in-neighbours (dir- models).", rich_help_panel="Network"),
]

Optimizer = Annotated[str | None, _training("optimizer", "Optimiser.", "adamw|adam")]
Lr = Annotated[str | None, _training("lr", "Peak learning rate; one run for each value.", "NUMBERS")]
WeightDecay = Annotated[float | None, _training("weight_decay", "Weight decay of the optimiser.")]
Clip = Annotated[float | None, _training("clip", "Gradient clipping by norm; 0: none.")]
Schedule = Annotated[str | None, _training("schedule", "Schedule of the learning rate.", "cosine|constant")]
Warmup = Annotated[int | None, _training("warmup", "Epochs of linear warm-up.")]
BatchSize = Annotated[int | None, _training("batch_size", "Graphs per batch; nodes or pairs with --neighbors.")]
Neighbors = Annotated[
    int | None,
    typer.Option(
        min=-1,
        help="Sampled neighbours per node and layer, -1 for all, in batches of --batch-size nodes or pairs.",
        show_default="full batch",
        rich_help_panel="Training",
    ),
]
Epochs = Annotated[int | None, _training("epochs", "Maximum number of epochs.")]
Patience = Annotated[
    int | None,
    typer.Option(
        help="Early stopping: epochs without a better validation score.",
        show_default="never; 200 on nodes",
        rich_help_panel="Training",
    ),
]
Folds = Annotated[
    str,
    typer.Option(metavar="NUMBERS", help="Official folds, one run each: 0, or 0..9.", rich_help_panel="Training"),
]
Metric = Annotated[
    str | None,
    typer.Option(
        help="Metric of the scores: mae, rmse, auroc, ap, accuracy, f1, hits@50.",
        show_default="that of the data set",
        rich_help_panel="Training",
    ),
]
ClassWeights = Annotated[
    str | None,
    typer.Option(metavar="balanced", help="Weight classes by inverse frequency.", rich_help_panel="Training"),
]
Precision = Annotated[str | None, _training("precision", "Floating-point precision.", "float32|bf16|float64")]
Seeds = Annotated[
    str,
    typer.Option(
        metavar="NUMBERS",
        help="Seeds, one run each: 0, 0..8 (inclusive), or 0,1,5.",
        rich_help_panel="Training",
    ),
]

RunFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RUN.toml]", help="Run file with options, written by --save; options given here take precedence."
    ),
]
Log = Annotated[
    str | None,
    typer.Option(metavar="csv|tensorboard", help="Log every epoch to FOLDER/logs.", rich_help_panel=_WHERE),
]
Save = Annotated[
    Path | None, typer.Option(metavar="RUN.toml", help="Write all settings to a run file.", rich_help_panel=_WHERE)
]

Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Folder of ledger.jsonl and the checkpoints.", rich_help_panel=_WHERE)
]
Accelerator = Annotated[str, typer.Option(metavar="|".join(ACCELERATORS), help="Device.", rich_help_panel=_WHERE)]
Devices = Annotated[int, typer.Option(min=1, help="Devices per machine that share a run.", rich_help_panel=_WHERE)]
Nodes = Annotated[int, typer.Option(min=1, help="Machines that share a run.", rich_help_panel=_WHERE)]
Engine = Annotated[
    str,
    typer.Option(
        metavar="|".join(ENGINES),
        help="eager: one run after another; lockstep: many runs at once, captured steps on a GPU; auto: as fits.",
        rich_help_panel=_WHERE,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Ignore results and delete checkpoints of earlier calls.", rich_help_panel=_WHERE),
]
