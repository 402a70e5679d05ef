"""Which engine trains the runs of a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import graphprism.training
from graphprism.experiments.any_run import AnyRun, ManyTrainer
from graphprism.experiments.table_spec import TableSpec
from graphprism.training import Run


def lockstep_for(engine: str) -> ManyTrainer | None:
    """The function that trains many runs at once, or None where runs are to be trained one by one.

    Raises:
        ValueError: Lockstep was asked for by name and cannot be had here.
    """
    found: ManyTrainer | None = getattr(graphprism.training, "train_lockstep", None)
    can = found is not None and torch.cuda.is_available()
    if engine == "lockstep" and not can:
        raise ValueError("`engine` must be eager or auto on this machine: lockstep needs a CUDA device, got 'lockstep'")
    return found if can and engine != "eager" else None


def trainer_of_many(spec: TableSpec, runs: Sequence[AnyRun], engine: str) -> ManyTrainer | None:
    """The function that trains several of these runs at once, or None where each is trained on its own."""
    if spec.train_many is not None:
        return None if engine == "eager" else spec.train_many
    return lockstep_for(engine) if all(isinstance(run, Run) for run in runs) else None


def groups_of(runs: Sequence[AnyRun], own: Sequence[str]) -> list[list[AnyRun]]:
    """Runs that may be trained at once: those that differ in the fields ``own`` alone.

    >>> runs = [Run(lr=0.1), Run(lr=0.2), Run(layers=4), Run(seed=1)]
    >>> [len(group) for group in groups_of(runs, own=("lr", "seed"))]
    [3, 1]
    """
    groups: dict[str, list[AnyRun]] = {}
    for run in runs:
        shared = {name: value for name, value in run.to_dict().items() if name not in own}
        groups.setdefault(repr(shared), []).append(run)
    return list(groups.values())
