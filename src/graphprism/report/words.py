"""A run in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphprism.report.formats import short

# Runs that differ in nothing but these are repetitions of one configuration.
REPETITION = ("seed", "fold")


def words(run: Mapping[str, Any]) -> str:
    """What most runs differ in, without seed and data set; a field that a run does not have is passed over.

    >>> words({"model": "mrs-gcn", "split": "degree", "layers": 8, "residual": True, "lr": 0.001, "seed": 3})
    'mrs-gcn by degree, 8 layers, res, lr 0.001'
    """
    model, layers = str(run.get("model", "run")), run.get("layers")
    parts = [f"{model} by {run['split']}" if splits(run) else model]
    parts += [f"{layers} layer{'s' * (layers != 1)}"] if layers is not None else []
    parts += ["res"] if run.get("residual") else []
    parts += [f"{name} {short(run[name])}" for name in ("jk", "pe", "norm", "dropout", "lr") if run.get(name)]
    return ", ".join(parts)


def title(run: Mapping[str, Any]) -> str:
    """The words with what tells repetitions apart.

    >>> title({"model": "gcn", "layers": 1, "seed": 3, "fold": 0})
    'gcn, 1 layer, seed 3, fold 0'
    """
    return ", ".join([words(run), *(f"{name} {run[name]}" for name in REPETITION if run.get(name) is not None)])


def splits(run: Mapping[str, Any]) -> bool:
    """Whether the run splits edges: its model has several relations."""
    return "mrs" in str(run.get("model", "")) and bool(run.get("split"))
