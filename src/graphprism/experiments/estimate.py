"""What a table would take, before it is run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from graphprism.datasets import PackedDataset
from graphprism.experiments.any_run import AnyRun
from graphprism.results import RunResult
from graphprism.training.hardware import hardware

# What two runs have in common if an epoch of one takes as long as an epoch of the other.
_ALIKE = ("dataset", "model", "layers", "width", "budget", "residual", "jk", "pe", "batch_size", "precision")


@dataclass(frozen=True)
class Estimate:
    """How much there is to do.

    Attributes:
        runs: Runs that the table needs.
        finished: Those that are in the ledger.
        steps: Training steps of the others, without those on data sets that are not there yet.
        seconds: Their time, from like runs in the ledger.
        unknown: How many of the others are like no run in the ledger.
    """

    runs: int
    finished: int
    steps: int
    seconds: float
    unknown: int


def estimate(
    runs: Sequence[AnyRun], datasets: Mapping[str, PackedDataset], results: Iterable[RunResult], engine: str
) -> Estimate:
    """Counts runs and steps, and takes the time of an epoch from like runs of that engine on this machine."""
    known = list(results)
    keys = {result.key for result in known}
    left = [run for run in runs if run.key not in keys]
    pace = _seconds_per_epoch(known, engine)
    times = [pace[kind] * run.epochs for run in left if (kind := _kind(run.to_dict())) in pace]
    steps = sum(_steps(run, datasets) for run in left)
    return Estimate(len(runs), len(runs) - len(left), steps, math.fsum(times), len(left) - len(times))


def _seconds_per_epoch(results: list[RunResult], engine: str) -> dict[object, float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = hardware(device, 1)["name"]
    found: dict[object, list[float]] = {}
    for result in results:
        epochs = len(result.history.get("train_loss", []))
        if epochs and result.engine == engine and result.hardware.get("name") == here:
            found.setdefault(_kind(result.run), []).append(result.seconds / epochs)
    return {kind: median(times) for kind, times in found.items()}


def _kind(run: Mapping[str, Any]) -> object:
    return tuple(run.get(name) for name in _ALIKE)


def _steps(run: AnyRun, datasets: Mapping[str, PackedDataset]) -> int:
    batch, dataset = getattr(run, "batch_size", None), datasets.get(run.dataset)
    if dataset is None:
        return 0
    if batch is None or dataset.split is None:
        return run.epochs  # the whole graph at once
    batches: int = math.ceil(dataset.subset("train").numel() / batch)
    return run.epochs * batches
