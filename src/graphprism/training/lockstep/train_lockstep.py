"""Trains many runs at once on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from graphprism._checks import check_positive
from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.diverged import Diverged
from graphprism.training.epoch_report import EpochReport
from graphprism.training.lockstep.lockstep_training import LockstepTraining
from graphprism.training.lockstep.runs_at_once import runs_at_once
from graphprism.training.lockstep.table_dataset import TableDataset
from graphprism.training.loss import check_task
from graphprism.training.run import Run
from graphprism.training.score import check_metric
from graphprism.training.train import train
from graphprism.training.untouched import untouched

# Neighbours of a node from which on a table of them is mostly empty: such runs are trained one by one.
_MOST_SLOTS = 16
# Normalisations that know which rows of a batch are nodes; others would count the rows that fill it up.
_NORMS = (None, "batch")


def lockstep_key(run: Run) -> str:
    """Runs with the same word are trained together: they differ in seed, learning rate and weight decay alone."""
    return replace(run, seed=0, lr=1.0, weight_decay=0.0).key


def train_lockstep(
    runs: Sequence[Run],
    dataset: PackedDataset,
    *,
    folder: str | Path | None = None,
    device: torch.device | str | None = None,
    at_once: int | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> list[RunResult]:
    """Trains runs side by side, each as if it was alone: own weights, order of data and learning rate.

    On a GPU a step of all runs is one captured graph of kernels; the data set lives on the device. Runs with equal
    `lockstep_key` go together, as many as fit into memory. One that diverges does not disturb the others. Called again
    after being killed it goes on from the last checkpoint. Graphs with hubs and runs with another norm than that of
    batches are trained one by one, by `train`.

    Args:
        runs: What to train.
        dataset: Graphs with targets and splits; graphs with few neighbours per node, such as molecules.
        folder: Where to keep checkpoints; None keeps none.
        device: Where to train; a GPU where there is one.
        at_once: Runs trained together at most; as many as fit into memory without it.
        on_epoch: Called for every run after every epoch.

    Returns:
        A result for every run, in their order; those that diverged say so.

    >>> from graphprism.datasets import molecules
    >>> runs = [Run(layers=2, width=8, epochs=2, seed=seed) for seed in range(3)]
    >>> [result.status for result in train_lockstep(runs, molecules(60), device="cpu")]
    ['finished', 'finished', 'finished']
    """
    check_task(dataset)
    check_metric(dataset.metric)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    check_positive("at_once", 1 if at_once is None else at_once)
    has_hubs = most_neighbours(dataset) > _MOST_SLOTS
    found: dict[str, RunResult] = {}
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if has_hubs or run.norm not in _NORMS:
            found[run.key] = _alone(run, dataset, folder, where, on_epoch)
        else:
            groups.setdefault(lockstep_key(run), []).append(run)
    with untouched(where):
        for group in groups.values():
            dtype = torch.float64 if group[0].precision == "float64" else torch.float32
            data = TableDataset(group[0], dataset, where, dtype)
            size = at_once or runs_at_once(group, dataset, data, where)
            for first in range(0, len(group), size):
                training = LockstepTraining(group[first : first + size], dataset, data, where, folder)
                found |= {result.key: result for result in training.finish(on_epoch)}
    return [found[run.key] for run in runs]


def most_neighbours(dataset: PackedDataset) -> int:
    """The largest number of edges that one node sends or receives."""
    numbers = dataset.edge_index.long() + dataset.node_ptr[:-1].repeat_interleave(dataset.edge_ptr.diff())
    return max((int(torch.bincount(each).max()) for each in numbers if each.numel()), default=0)


def _alone(
    run: Run,
    dataset: PackedDataset,
    folder: str | Path | None,
    device: torch.device,
    on_epoch: Callable[[EpochReport], None] | None,
) -> RunResult:
    accelerator = "cpu" if device.type == "cpu" else "gpu"
    try:
        return train(run, dataset, folder=folder, accelerator=accelerator, on_epoch=on_epoch)
    except Diverged as error:
        return error.result
