"""Runs on the nodes of one graph, trained side by side."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from graphprism.datasets import PackedDataset
from graphprism.datasets.leak_audit import LeakAudit, leak_audit
from graphprism.results import RunResult
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_run import NodeRun
from graphprism.training.node.node_step import SLOTS
from graphprism.training.node.node_training import NodeTraining
from graphprism.training.provenance import origin
from graphprism.training.session import EpochReport

# Runs that share a device: more would not make better use of it, and each takes seconds to be captured.
_AT_ONCE = 40


def train_nodes(
    runs: Sequence[NodeRun],
    dataset: PackedDataset,
    *,
    folder: Path | None = None,
    accelerator: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    checkpoint_seconds: float = 10.0,
) -> list[RunResult]:
    """Trains all runs at once: folds, seeds, rates, or whole models that take the same graph.

    Each has weights of its own and gives the same numbers as alone; one that ends leaves the device to the others. The
    graph is split and sorted once. On a GPU every run is one captured step on a stream of its own. A run whose loss is
    not finite ends with the status ``"diverged"``.

    Args:
        runs: What to train.
        dataset: Their data set, loaded.
        folder: Where checkpoints lie; runs go on from those that are there.
        accelerator: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        on_epoch: Called after each epoch of each run.
        checkpoint_seconds: Time between two checkpoints.

    Returns:
        One result for each run, in their order; accuracies are in percent, those of a look-up and of the majority class
        are in ``extra``.
    """
    device = _device(accelerator)
    shared: dict[object, NodeData] = {}
    audits: dict[tuple[int, bool, bool], LeakAudit] = {}
    results: list[RunResult] = []

    def train_some() -> None:  # a function: what one wave holds of the device is free before the next
        wave = _start(runs[len(results) :], dataset, shared, folder, device)
        _train(wave, SLOTS if device.type == "cuda" else 1, on_epoch or _nobody, checkpoint_seconds)
        shared_origin = origin(device, 1, len(wave))
        for each in wave:
            fold, undirected, self_loops = key = each.run.fold, each.run.undirected, each.run.self_loops
            if key not in audits:
                audits[key] = leak_audit(dataset, fold, undirected=undirected, self_loops=self_loops)
            results.append(each.result(len(wave), shared_origin, _baselines(audits[key])))

    while len(results) < len(runs):
        train_some()
    return results


def _start(
    runs: Sequence[NodeRun],
    dataset: PackedDataset,
    shared: dict[object, NodeData],
    folder: Path | None,
    device: torch.device,
) -> list[NodeTraining]:
    """As many of the first runs as the memory of the device has room for, at least one."""
    wave: list[NodeTraining] = []
    free, largest = _free_bytes(device), 0.0
    for run in runs[:_AT_ONCE]:
        key = NodeData.key(run)
        if key not in shared:
            shared[key] = NodeData.prepare(run, dataset, device)
        wave.append(NodeTraining(run, dataset, shared[key], folder))
        left = _free_bytes(device)
        largest, free = max(largest, free - left if left < free else 0.0), left
        if left < 2 * largest:
            break
    return wave


def _free_bytes(device: torch.device) -> float:
    if device.type != "cuda":  # a step that is over holds nothing there
        return math.inf
    torch.cuda.empty_cache()
    free: int = torch.cuda.mem_get_info(device)[0]
    return float(free)


def _baselines(audit: LeakAudit) -> dict[str, float]:
    return {"lookup": 100 * audit.lookup, "majority": 100 * audit.majority}


def _train(
    trainings: Sequence[NodeTraining],
    epochs_at_once: int,
    on_epoch: Callable[[EpochReport], None],
    checkpoint_seconds: float,
) -> None:
    saved = time.monotonic()
    while active := [each for each in trainings if not each.progress.finished]:
        start = time.perf_counter()
        for _ in range(epochs_at_once):
            for each in active:
                each.launch()
        rows = [each.read() for each in active]
        # the device is shared: each run pays its part
        seconds = (time.perf_counter() - start) / (epochs_at_once * len(active))
        for each, new in zip(active, rows, strict=True):
            for report in each.count(new, seconds):
                on_epoch(report)
        if time.monotonic() - saved >= checkpoint_seconds:
            for each in active:
                each.save()
            saved = time.monotonic()


def _nobody(report: EpochReport) -> None:
    """Hears of epochs where no one else does."""


def _device(accelerator: str) -> torch.device:
    there = torch.cuda.is_available()
    if accelerator not in ("auto", "cpu", "cuda", "gpu"):
        raise ValueError(f'`accelerator` must be "auto", "cpu" or "cuda", got {accelerator!r}')
    if accelerator in ("cuda", "gpu") and not there:
        raise ValueError(f"`accelerator` must be auto or cpu where torch finds no CUDA device, got {accelerator!r}")
    return torch.device("cuda" if there and accelerator != "cpu" else "cpu")
