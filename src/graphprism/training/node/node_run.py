"""One run of node classification, as data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from graphprism.nn.models import CONVOLUTIONS
from graphprism.training.run import PRECISIONS

# Features that are mostly zeros come in sparse CSR layout, which not every layer takes.
NODE_MODELS = tuple(name for name, conv in CONVOLUTIONS.items() if conv.takes_sparse)


@dataclass(frozen=True)
class NodeRun:
    """All that decides the outcome of a run on the nodes of one graph.

    The defaults are the paper's best values for MRS-Dir-GCN on Chameleon.

    Attributes:
        dataset: What `graphprism.datasets.load` takes.
        model: A name of `NODE_MODELS`.
        split: An ordering, or several between commas; unused by models of one relation.
        layers: Number of convolutions.
        width: Channels of a hidden layer.
        alpha: Share of the nodes that a node points to; unused without ``dir-``.
        jk: None, ``"cat"`` or ``"max"``.
        normalize: Whether every layer ends in rows of length one.
        dropout: Share of channels dropped in training.
        input_dropout: Whether the same share of the features is dropped, before the first layer.
        share_init: Whether all relations of a layer start from the same weights.
        undirected: Whether every edge also goes back; the split is that of the graph with both.
        self_loops: Whether every node gets an edge to itself, before the split.
        row_normalise: Whether the features of a node are divided by their sum.
        optimizer: ``"adam"``.
        lr: Learning rate, constant.
        weight_decay: Of the optimiser.
        epochs: Steps at most; each takes all nodes.
        patience: Stops after so many epochs without a better validation accuracy.
        fold: Column of the official splits.
        seed: Of weights and dropout.
        precision: ``"float32"``, ``"bf16"`` or ``"float64"``.

    >>> NodeRun(fold=3) == NodeRun.from_dict(NodeRun(fold=3).to_dict())
    True
    """

    dataset: str = "chameleon"
    model: str = "mrs-dir-gcn"
    split: str = "degree"
    layers: int = 6
    width: int = 128
    alpha: float = 1.0
    jk: str | None = "max"
    normalize: bool = True
    dropout: float = 0.2
    input_dropout: bool = False
    share_init: bool = True
    undirected: bool = False
    self_loops: bool = False
    row_normalise: bool = True
    optimizer: str = "adam"
    lr: float = 0.005
    weight_decay: float = 0.0
    epochs: int = 10_000
    patience: int = 400
    fold: int = 0
    seed: int = 0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("model", NODE_MODELS),
            ("jk", (None, "cat", "max")),
            ("optimizer", ("adam",)),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {list(allowed)}, got {getattr(self, name)!r}")
        for name in ("layers", "width", "epochs", "patience"):
            self._check(name, getattr(self, name) >= 1, "at least 1")
        for name in ("weight_decay", "fold", "seed"):
            self._check(name, getattr(self, name) >= 0, "at least 0")
        self._check("alpha", 0 <= self.alpha <= 1, "in [0, 1]")
        self._check("lr", self.lr > 0, "above 0")
        self._check("dropout", 0 <= self.dropout < 1, "in [0, 1)")

    def _check(self, name: str, holds: bool, must: str) -> None:
        if not holds:
            raise ValueError(f"`{name}` must be {must}, got {getattr(self, name)!r}")

    @property
    def key(self) -> str:
        """Sixteen letters that identify the run; a field that is added later with a default does not change them."""
        defaults = {each.name: each.default for each in fields(self) if each.default is not MISSING}
        told = {name: value for name, value in self.to_dict().items() if value != defaults.get(name, MISSING)}
        # "node": a run on graphs may say the same of itself
        return hashlib.sha256(json.dumps({"node": told}, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The run in a few words, for people.

        >>> NodeRun(model="dir-gcn", layers=5, fold=2).title
        'dir-gcn, 5 layers, jk max, dropout 0.2, lr 0.005, split 2, seed 0, chameleon'
        """
        split = f" by {self.split}" if self.model.startswith("mrs-") else ""
        jk = [f"jk {self.jk}"] if self.jk else []
        parts = [f"{self.model}{split}", f"{self.layers} layer{'s' * (self.layers > 1)}", *jk]
        dropout = f"dropout {self.dropout:g}{', of features too' * self.input_dropout}"
        numbers = [dropout, f"lr {self.lr:g}", f"split {self.fold}", f"seed {self.seed}"]
        return ", ".join([*parts, *numbers, self.dataset])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NodeRun:
        """Reads `to_dict` back; a name that is not one of a run is an error."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise ValueError(f"a run must have only fields of `NodeRun`, got {unknown}")
        return cls(**values)
