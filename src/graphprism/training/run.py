"""One training run, as data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from graphprism.nn.models import CONVOLUTIONS

OPTIMIZERS = ("adamw", "adam")
SCHEDULES = ("cosine", "constant")
# Both engines take layers of this package that pass messages along the edges.
MODELS = tuple(
    name for name, conv in CONVOLUTIONS.items() if conv.takes_graph and conv.edge_norm is not None and not conv.directed
)
PRECISIONS = ("float32", "bf16", "float64")


@dataclass(frozen=True)
class Run:
    """All that decides the outcome of a run on graphs: two equal runs on one machine give the same bits.

    The defaults are the protocol of the paper's tables on ZINC.

    Attributes:
        dataset: What `graphprism.datasets.load` takes.
        model: A name of `MODELS`.
        split: An ordering, or several between commas; unused by models of one relation.
        layers: Number of convolutions.
        width: Channels of a hidden layer; None takes the largest that stays within ``budget``.
        budget: Parameters at most, counted as the paper's table does; unused where ``width`` is given.
        residual: Whether a layer adds its input.
        jk: None, ``"cat"`` or ``"max"``.
        pe: Number of Laplacian positional features.
        norm: None or the name of a PyG normalisation.
        dropout: Share of channels dropped in training.
        optimizer: ``"adamw"`` or ``"adam"``.
        lr: Largest learning rate.
        weight_decay: Of the optimiser.
        clip: Largest norm of the gradient; 0 does not clip.
        schedule: ``"cosine"`` (to 0 at the last epoch) or ``"constant"``, after ``warmup``.
        warmup: Epochs in which the learning rate grows linearly from 0.
        batch_size: Graphs in a batch.
        epochs: Passes over the training set.
        seed: Of weights, order of data and dropout.
        precision: ``"float32"`` (products in TF32 on a GPU that has it), ``"bf16"`` or ``"float64"``.

    >>> Run(model="gcn", layers=4) == Run.from_dict(Run(model="gcn", layers=4).to_dict())
    True
    """

    dataset: str = "molecules"
    model: str = "mrs-gcn"
    split: str = "degree"
    layers: int = 8
    width: int | None = None
    budget: int = 500_000
    residual: bool = False
    jk: str | None = None
    pe: int = 0
    norm: str | None = None
    dropout: float = 0.0
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    clip: float = 1.0
    schedule: str = "cosine"
    warmup: int = 5
    batch_size: int = 32
    epochs: int = 400
    seed: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("model", MODELS),
            ("jk", (None, "cat", "max")),
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {list(allowed)}, got {getattr(self, name)!r}")
        for name in ("layers", "batch_size", "epochs", "budget"):
            _check(name, getattr(self, name) >= 1, "at least 1", getattr(self, name))
        for name in ("pe", "warmup", "weight_decay", "clip", "seed"):
            _check(name, getattr(self, name) >= 0, "at least 0", getattr(self, name))
        _check("width", self.width is None or self.width >= 1, "at least 1", self.width)
        _check("lr", self.lr > 0, "above 0", self.lr)
        _check("dropout", 0 <= self.dropout < 1, "in [0, 1)", self.dropout)

    @property
    def key(self) -> str:
        """Sixteen letters that identify the run; a field that is added later with a default does not change them."""
        defaults = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        told = {name: value for name, value in self.to_dict().items() if value != defaults.get(name, MISSING)}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The run in a few words, for people.

        >>> Run(model="gcn", layers=4, residual=True, lr=0.0003).title
        'gcn, 4 layers, res, lr 0.0003, seed 0, molecules'
        """
        split = f" by {self.split}" if self.model.startswith("mrs-") else ""
        more = [word for word, on in (("res", self.residual), (f"jk {self.jk}", self.jk), ("pe", self.pe)) if on]
        parts = [f"{self.model}{split}", f"{self.layers} layer{'s' * (self.layers > 1)}", *more, f"lr {self.lr:g}"]
        return ", ".join([*parts, f"seed {self.seed}", self.dataset])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Reads `to_dict` back; a name that is not one of a run is an error."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise ValueError(f"a run must have only fields of `Run`, got {unknown}")
        return cls(**values)


def _check(name: str, holds: bool, must: str, value: object) -> None:
    if not holds:
        raise ValueError(f"`{name}` must be {must}, got {value!r}")
