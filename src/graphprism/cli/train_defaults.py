"""What ``graphprism train`` takes where an option is not given; loads no torch, so that help comes at once."""

from __future__ import annotations

from typing import Any

# The names of `graphprism.nn.models.CONVOLUTIONS`; a test holds the two together.
MODELS = (
    "gcn",
    "mrs-gcn",
    "sage",
    "mrs-sage",
    "gat",
    "mrs-gat",
    "gin",
    "mrs-gin",
    "gated-gcn",
    "mrs-gated-gcn",
    "mrs-gated-gcn-9",
)
# The defaults of `graphprism.training.Run`: the paper's protocol on ZINC. A test holds the two together.
PROTOCOL: dict[str, Any] = {
    "split": "degree",
    "layers": 8,
    "budget": 500_000,
    "pe": 0,
    "dropout": 0.0,
    "optimizer": "adamw",
    "lr": 0.001,
    "weight_decay": 0.0,
    "clip": 1.0,
    "schedule": "cosine",
    "warmup": 5,
    "batch_size": 32,
    "epochs": 400,
    "precision": "float32",
}
# Where a data set has its own. `molecules` is for trying things out: both models end within a minute on two cores.
OF_DATASET: dict[str, dict[str, Any]] = {
    "molecules": {"layers": 6, "budget": 90_000, "warmup": 0, "batch_size": 64, "epochs": 8},
    "zinc": {"epochs": 500},
    "peptides-func": {"batch_size": 200, "epochs": 250},
    "peptides-struct": {"batch_size": 200, "epochs": 250},
}


def shown_default(name: str) -> str:
    """The default of an option in words, for its help.

    >>> shown_default("layers")
    '8; 6 on molecules'
    >>> shown_default("clip")
    '1.0'
    """
    others = [f"{values[name]} on {dataset}" for dataset, values in OF_DATASET.items() if name in values]
    return "; ".join([str(PROTOCOL[name]), *others])
