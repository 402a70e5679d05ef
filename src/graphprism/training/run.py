"""The settings of one training run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from graphprism._checks import (
    check_choice,
    check_finite_number,
    check_optional_whole,
    check_share,
    check_type,
    check_whole,
)
from graphprism._text import suggest
from graphprism.nn.conv.relational_weight import DECAY, DEVIATIONS, STARTS
from graphprism.nn.models import BASELINES, MODELS, REMEDIES
from graphprism.nn.models.blocks import ACTIVATIONS, HEADS
from graphprism.nn.models.gnn_options import PE_ENCODERS, SPLIT_LAYERS
from graphprism.splitting import parse_splits, split_text
from graphprism.training.schedule import SCHEDULES

OPTIMIZERS = ("adamw", "adam")
PRECISIONS = ("float32", "bf16", "float64")


def _field(default: Any, *, origin: Any) -> Any:
    """A field with its default and its origin: the value that runs had before the field existed."""
    return field(default=default, metadata={"origin": origin})


@dataclass(frozen=True)
class Run:
    """Everything that determines the result of a run, on graphs, or on the nodes or links of one graph.

    Two equal runs on one machine give bitwise equal results. The defaults are the protocol of the paper's tables on
    ZINC.

    Attributes:
        dataset: A name for `graphprism.datasets.load`; it decides whether graphs, nodes or links have targets.
        model: A name of `graphprism.nn.models.MODELS`.
        split: A split as text, such as ``"degree"`` or ``"degree, ppr * attr(edge_attr)"``, or one for each layer
            between semicolons (see `graphprism.splitting.expression`); unused by models of one relation. Relations that
            do not occur in the data set are left out, except that a split by order alone always has three.
        layers: Number of convolutions.
        width: Channels of a hidden layer; None takes the largest that stays within ``budget``.
        budget: Largest number of parameters, counted as in the paper's table; unused if ``width`` is given.
        residual: Whether a layer adds its input.
        edge_residual: Whether a layer adds its input to the states of edges alone; with ``residual`` it does anyway.
        edge_dropout: Whether ``dropout`` also applies to the states of edges; GatedGCN only.
        ffn: Whether every layer ends in a feed-forward block with two batch norms.
        activation: Of layers and feed-forward blocks, ``"relu"`` or ``"gelu"``.
        split_layers: Which layers split: ``"all"``, ``"early"`` (the first half) or ``"late"`` (the others); the
            others are plain. Unused by models of one relation.
        jk: None, ``"cat"`` or ``"max"``.
        pe: Number of positional features: of random walks with ``pe_encoder="walk"``, else Laplacian; graphs only.
        pe_encoder: How positions become features: None takes the entries of eigenvectors as they are
            (`graphprism.transforms.LaplacianPE`), ``"deepset"`` encodes pairs of an entry and an eigenvalue with random
            signs in training, as the paper's authors do (`graphprism.transforms.LaplacianSpectrum`), ``"walk"`` encodes
            the probabilities that random walks return (`graphprism.transforms.RandomWalkPE`); graphs only.
        walk_steps: Longest random walk, with ``pe_encoder="walk"``.
        edge_walks: Whether features of edges also have the probabilities of walks from one end to the other.
        node_encoder: How types of nodes are embedded: ``"types"`` has a row for each type of the data set, initialised
            as PyTorch's embedding; ``"atoms"`` is OGB's encoder of atoms, with up to 119 rows per table. It and the
            embedding of bonds then have Glorot initialisation, and all of its nine tables count in ``budget``, used or
            not; graphs only.
        head_layers: Linear maps after the readout; graphs only.
        head: Widths of several of them: ``"halving"``, or ``"constant"`` with dropout before each; graphs only.
        head_activation: Between them, ``"relu"`` or ``"gelu"``; graphs only.
        norm: None or the name of a PyG normalisation of states.
        dropout: Share of channels dropped in training.
        optimizer: ``"adamw"`` or ``"adam"``.
        lr: Largest learning rate.
        weight_decay: Of the optimiser.
        clip: Largest norm of the gradient; 0 does not clip.
        schedule: A name of `graphprism.training.schedule.SCHEDULES`, after ``warmup``.
        warmup: Epochs in which the learning rate grows linearly from 0.
        batch_size: Graphs in a batch, or nodes or pairs with ``neighbors``; None for the whole training set or graph.
        epochs: Largest number of passes over the training set.
        seed: Of weights, permutations of data and dropout.
        precision: ``"float32"`` (products in TF32 on a GPU that has it), ``"bf16"`` or ``"float64"``.
        patience: Stops after so many epochs without a better validation score; None never stops early.
        fold: Column of the official folds; data sets with one division into folds have only 0.
        alpha: Share of the nodes that a node points to; unused by undirected models.
        normalize: Whether every layer scales its rows, the states of nodes, to length one.
        input_dropout: Whether ``dropout`` also applies to the features, before the first layer; nodes only.
        start: ``"shared"`` starts all relations of a layer with equal weights, ``"independent"`` draws the weights of
            each relation, as the paper does on ZINC.
        decay: How strongly a shared start ties the relations to their common weights; 0 for not at all, as in the
            paper's directed runs.
        deviation: Form of the deviations of a shared start: ``"full"`` matrices, or ``"diagonal"`` ones, a factor for
            each output channel.
        weight_init: Initialisation of (MRS-)SAGE: None as in PyG's layer, ``"glorot"`` as in the authors' MRS-SAGE.
        undirected: Whether the reverse of every edge is added, before the split; nodes only.
        self_loops: Whether every node gets an edge to itself, before the split; nodes only.
        row_normalise: Whether the input features of a node are divided by their sum; nodes only.
        metric: A name of `graphprism.training.METRICS`; None takes that of the data set.
        class_weights: None, or ``"balanced"``: every class has the same total weight in the loss, however rare it is.
        learned_split: Whether scores of relations are trained with the network, from ``split``; MRS models only.
        neighbors: Neighbours that are sampled for every node in each layer, -1 for all of them, in batches of
            ``batch_size`` nodes or pairs; None trains on the whole graph at once; nodes and links only.
        options: Hyper-parameters of a network of `graphprism.nn.models.BASELINES`, as ``name=value`` separated by
            commas and sorted by name; empty for convolutions.
        encode: Whether a linear map comes before the first convolution and another after the last; nodes only, graphs
            always have them.
        remedy: None, or a name of `graphprism.nn.models.REMEDIES` that changes every layer of the model ``"gcn"``;
            those with graph convolutions also of ``"mrs-gcn"``.

    >>> Run(model="gcn", layers=4) == Run.from_dict(Run(model="gcn", layers=4).to_dict())
    True
    """

    dataset: str = _field("molecules", origin="molecules")
    model: str = _field("mrs-gcn", origin="mrs-gcn")
    split: str = _field("degree", origin="degree")
    layers: int = _field(8, origin=8)
    width: int | None = _field(None, origin=None)
    budget: int = _field(500_000, origin=500_000)
    residual: bool = _field(False, origin=False)
    edge_residual: bool = _field(False, origin=False)
    jk: str | None = _field(None, origin=None)
    pe: int = _field(0, origin=0)
    pe_encoder: str | None = _field(None, origin=None)
    node_encoder: str = _field("types", origin="types")
    norm: str | None = _field(None, origin=None)
    dropout: float = _field(0.0, origin=0.0)
    optimizer: str = _field("adamw", origin="adamw")
    lr: float = _field(1e-3, origin=1e-3)
    weight_decay: float = _field(0.0, origin=0.0)
    clip: float = _field(1.0, origin=1.0)
    schedule: str = _field("cosine", origin="cosine")
    warmup: int = _field(5, origin=5)
    batch_size: int | None = _field(32, origin=32)
    epochs: int = _field(400, origin=400)
    seed: int = _field(0, origin=0)
    precision: str = _field("float32", origin="float32")
    patience: int | None = _field(None, origin=None)
    fold: int = _field(0, origin=0)
    alpha: float = _field(0.5, origin=0.5)
    normalize: bool = _field(False, origin=False)
    input_dropout: bool = _field(False, origin=False)
    start: str = _field("shared", origin="independent")
    decay: float = _field(DECAY, origin=0.0)
    deviation: str = _field("full", origin="full")
    weight_init: str | None = _field(None, origin=None)
    undirected: bool = _field(False, origin=False)
    self_loops: bool = _field(False, origin=False)
    row_normalise: bool = _field(False, origin=False)
    metric: str | None = _field(None, origin=None)
    class_weights: str | None = _field(None, origin=None)
    learned_split: bool = _field(False, origin=False)
    ffn: bool = _field(False, origin=False)
    activation: str = _field("relu", origin="relu")
    edge_dropout: bool = _field(False, origin=False)
    walk_steps: int = _field(0, origin=0)
    edge_walks: bool = _field(False, origin=False)
    head_layers: int = _field(1, origin=1)
    head: str = _field("halving", origin="halving")
    head_activation: str = _field("relu", origin="relu")
    split_layers: str = _field("all", origin="all")
    neighbors: int | None = _field(None, origin=None)
    options: str = _field("", origin="")
    encode: bool = _field(False, origin=False)
    remedy: str | None = _field(None, origin=None)

    def __post_init__(self) -> None:
        try:
            check_choice("model", self.model, tuple(MODELS))
        except ValueError as error:
            way = "`nn.register_convolution` makes one of your own known, in the shell `graphprism --import FILE.py`"
            raise ValueError(f"{error} ({way})" if isinstance(self.model, str) else str(error)) from None
        for name, allowed in (
            ("jk", (None, "cat", "max", "lstm")),
            ("pe_encoder", PE_ENCODERS),
            ("activation", tuple(ACTIVATIONS)),
            ("head", tuple(HEADS)),
            ("head_activation", tuple(ACTIVATIONS)),
            ("split_layers", SPLIT_LAYERS),
            ("weight_init", (None, "glorot")),
            ("remedy", (None, *REMEDIES)),
            ("class_weights", (None, "balanced")),
            ("node_encoder", ("types", "atoms")),
            ("optimizer", OPTIMIZERS),
            ("schedule", tuple(SCHEDULES)),
            ("precision", PRECISIONS),
            ("start", STARTS),
            ("deviation", DEVIATIONS),
        ):
            check_choice(name, getattr(self, name), allowed)
        for name in ("dataset", "options"):
            check_type(name, getattr(self, name), str, "a name")
        parse_splits(self.split)
        if self.norm is not None:
            check_type("norm", self.norm, str, "None or a name")
        given: object = self.metric
        if given is not None and not isinstance(given, str):
            must = "None or a name of graphprism.training.METRICS"
            hint = "with a metric of your own, score the outputs of graphprism.load(folder)(graphs)"
            raise TypeError(f"`metric` must be {must}, got {type(given).__name__}; {hint}")
        for each in fields(self):
            if isinstance(each.default, bool):
                check_type(each.name, getattr(self, each.name), bool, "True or False")
        for name in ("layers", "epochs", "budget", "head_layers"):
            check_whole(name, getattr(self, name), least=1)
        for name in ("width", "batch_size", "patience"):
            check_optional_whole(name, getattr(self, name))
        for name in ("pe", "walk_steps", "warmup", "seed", "fold"):
            check_whole(name, getattr(self, name))
        for name in ("weight_decay", "clip", "decay"):
            check_finite_number(name, getattr(self, name), least=0)
        if self.neighbors is not None:
            check_whole("neighbors", self.neighbors, least=-1)
            if self.neighbors == 0:
                raise ValueError("`neighbors` must be None, -1 for all, or at least 1, got 0")
        check_finite_number("lr", self.lr)
        if self.lr <= 0:
            raise ValueError(f"`lr` must be above 0, got {self.lr!r}")
        if self.learned_split and not MODELS[self.model].relational:
            raise ValueError(f"`learned_split` must be False for a model without relations, got True with {self.model}")
        check_share("alpha", self.alpha)
        check_share("dropout", self.dropout, below_one=True)
        _check_options(self.model, self.options)

    @property
    def model_options(self) -> dict[str, Any]:
        """What ``options`` says, by name.

        >>> Run(model="gpr-gnn", batch_size=None, options="alpha=0.5,steps=10").model_options
        {'alpha': 0.5, 'steps': 10}
        """
        return _parsed(self.options)

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits that identify the run; see `run_key`."""
        return run_key(self.to_dict())

    @property
    def title(self) -> str:
        """A short description of the run.

        >>> Run(model="gcn", layers=4, residual=True, lr=0.0003).title
        'gcn, 4 layers, res, lr 0.0003, seed 0, molecules'
        >>> Run("chameleon", "dir-gcn", layers=5, width=128, batch_size=None, dropout=0.2, fold=2).title
        'dir-gcn, 5 layers, dropout 0.2, lr 0.001, fold 2, seed 0, chameleon'
        """
        split = f" by {self.split}" if MODELS[self.model].relational else ""
        dropout = f"dropout {self.dropout:g}{', of features too' * self.input_dropout}"
        more = (
            (self.remedy or "", self.remedy),
            ("res", self.residual),
            (f"{self.norm} norm", self.norm),
            ("ffn", self.ffn),
            (f"split {self.split_layers}", self.split_layers != "all"),
            (f"jk {self.jk}", self.jk),
            (f"pe {self.pe_encoder}" if self.pe_encoder else "pe", self.pe),
            (dropout, self.dropout),
            (f"lr {self.lr:g}", True),
            (f"{'all' if self.neighbors == -1 else self.neighbors} neighbours", self.neighbors),
            (f"fold {self.fold}", self.batch_size is None or self.neighbors),
            (f"seed {self.seed}", True),
            (self.dataset, True),
        )
        layers = f"{self.layers} layer{'s' * (self.layers > 1)}"
        return ", ".join([f"{self.model}{split}", layers, *(word for word, on in more if on)])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: getattr(self, name) for name in ORIGIN}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Reads `to_dict` back; a field that did not exist yet has its origin, an unknown name is an error."""
        if not isinstance(values, Mapping):
            raise TypeError(f"a run must be a mapping of fields to values, got {type(values).__name__}")
        values = _renamed(values)
        unknown = sorted(map(str, set(values) - set(ORIGIN)))
        if unknown:
            raise ValueError(f"a run must have only fields of `Run`, got {unknown}{suggest(unknown[0], ORIGIN)}")
        return cls(**{**ORIGIN, **values})


def _parsed(options: str) -> dict[str, Any]:
    """Numbers, booleans and strings by name."""
    pairs = (each.partition("=") for each in options.split(",") if each)
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check_options(model: str, options: str) -> None:
    found = _parsed(options)
    # one spelling for each meaning, so that equal runs have equal keys
    if [each.partition("=")[0] for each in options.split(",") if options] != sorted(found) or " " in options:
        must = "name=value between commas, without spaces, in the order of names, each once"
        raise ValueError(f"`options` must be {must}, got {options!r}")
    if model in BASELINES:
        BASELINES[model].check(found)
    elif options:
        raise ValueError(f"`options` must be empty for {model}, which is a convolution, got {options!r}")


# The value that runs had before a field existed. It never changes, whatever the default of the field becomes.
ORIGIN: dict[str, Any] = {each.name: each.metadata["origin"] for each in fields(Run)}


def run_key(values: Mapping[str, Any]) -> str:
    """The key of a run given as plain values: a hash of the fields that are not at their origin.

    A field that is added later does not change the keys of runs from before it, and neither does a new default.

    >>> run_key({}) == run_key({"seed": 0}) == Run.from_dict({}).key
    True
    """
    values = _renamed(values)
    hashed = {name: value for name, value in values.items() if name not in ORIGIN or value != ORIGIN[name]}
    for name, value in hashed.items():
        if isinstance(ORIGIN.get(name), float) and isinstance(value, int | float):
            hashed[name] = value + 0.0  # one spelling of equal numbers: 0, -0.0 and 0.0
    if hashed.pop("start", ORIGIN["start"]) == "shared":
        hashed["share_init"] = True  # its name in version 0.1, which had no decay
    else:
        hashed.pop("decay", None)  # without effect if relations start independently
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a run of version 0.1 under their current names."""
    if "share_init" not in values:
        return dict(values)
    rest = {name: value for name, value in values.items() if name != "share_init"}
    return {**rest, "start": "shared" if values["share_init"] else "independent", "decay": 0.0}


def canonical_split(split: str) -> str:
    """The one spelling of a split; a `Run` keeps the text that it is given, which is part of its key.

    >>> canonical_split("degree*attr(kind,4)")
    'degree * attr(kind, 4)'
    """
    return split_text(parse_splits(split))
