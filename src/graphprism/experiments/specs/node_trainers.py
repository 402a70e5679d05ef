"""How runs on nodes are repeated and trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graphprism.datasets import PackedDataset
from graphprism.experiments.any_run import AnyRun, OnEpoch
from graphprism.results import RunResult
from graphprism.training import NodeRun, train_node

# Official splits of each set.
FOLDS = {
    "squirrel": 10,
    "chameleon": 10,
    "squirrel-filtered": 10,
    "chameleon-filtered": 10,
    "arxiv-year": 5,
    "snap-patents": 5,
    "roman-empire": 10,
}


def with_fold(run: AnyRun, number: int) -> AnyRun:
    """The same run on another official split; after the last split, the first one again with another seed."""
    seed, fold = divmod(number, FOLDS[run.dataset])
    return replace(run, fold=fold, seed=seed)


def train_one_on_nodes(run: AnyRun, dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> RunResult:
    """Trains a `graphprism.training.NodeRun` on its own."""
    if not isinstance(run, NodeRun):
        raise TypeError(f"`run` must be a graphprism.training.NodeRun, got {type(run).__name__}")
    return train_node(run, dataset, folder=folder, on_epoch=on_epoch)
