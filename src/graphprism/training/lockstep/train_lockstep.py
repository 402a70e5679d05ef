"""Trains many runs at once on one device."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_positive
from graphprism._files import write_whole
from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.checkpoint import load_parts, save_parts
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.group import LockstepEpoch, LockstepGroup
from graphprism.training.optim import learning_rate
from graphprism.training.provenance import data_identity, origin
from graphprism.training.run import Run
from graphprism.training.session import Diverged, EpochReport, Progress, untouched
from graphprism.training.task import LARGER_IS_BETTER, check_metric, check_task, score
from graphprism.training.train import train

# Share of the free memory that is used, and runs at most: beyond, a step does not get faster per run.
_SHARE = 0.8
_MOST = 64
# On a CPU more runs at once do not make any of them faster; a few serve to test the engine.
_MOST_ON_CPU = 8


def runs_at_once(runs: Sequence[Run], dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    """Runs to train together, by what one step and one evaluation of a single run take.

    A grid that does not fit is divided evenly, so that no part is much smaller than the others.
    """
    most = _MOST_ON_CPU if device.type == "cpu" else min(_MOST, _fitting(runs[0], dataset, data, device))
    parts = -(-len(runs) // most)
    return -(-len(runs) // parts)


def _fitting(run: Run, dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    group = LockstepGroup([run], dataset, data, device)
    group.measure()
    used = torch.cuda.max_memory_allocated(device) - before
    del group
    torch.cuda.empty_cache()
    return max(1, int(_SHARE * free / max(1, used)))


# In the folder of a grid: the keys of its runs, one a line.
RUNS_FILE = "runs.txt"


def forget_lockstep(folder: str | Path, runs: Iterable[Run]) -> None:
    """Removes the checkpoints of all grids that one of these runs was trained in, so that it starts anew.

    >>> forget_lockstep("no such folder", [Run()])
    """
    unwanted = {run.key for run in runs}
    for file in Path(folder).glob(f"lockstep-*/{RUNS_FILE}"):
        if unwanted & set(file.read_text("utf-8").split()):
            shutil.rmtree(file.parent, ignore_errors=True)


# Seconds between checkpoints of a group.
_KEPT_EVERY = 30.0


class LockstepTraining:
    """A group of runs from its first epoch, or its checkpoint, to its last."""

    def __init__(
        self,
        runs: Sequence[Run],
        dataset: PackedDataset,
        data: TableDataset,
        device: torch.device,
        folder: str | Path | None,
    ) -> None:
        self.runs, self.dataset, self.device = runs, dataset, device
        self.group = LockstepGroup(runs, dataset, data, device, keep_outputs=dataset.metric != "mae")
        self.progress = [Progress(LARGER_IS_BETTER[dataset.metric]) for _ in runs]
        self.bad: list[tuple[int, int] | None] = [None] * len(runs)
        self.best = {name: tensor.clone() for name, tensor in self._network_state().items()}
        self.epoch, self.steps = 0, -(-dataset.subset("train").numel() // runs[0].batch_size)
        self.path, self.identity = None, ""
        if folder is not None:
            self.identity = data_identity(dataset)
            name = hashlib.sha256(" ".join(run.key for run in runs).encode()).hexdigest()[:16]
            self.path = Path(folder) / f"lockstep-{name}" / "checkpoint.pt"
            self._load()

    def finish(self, on_epoch: Callable[[EpochReport], None] | None) -> list[RunResult]:
        """Runs the epochs that are left."""
        kept_at = time.monotonic()
        while self.epoch < self.runs[0].epochs:
            begin = time.perf_counter()
            trained = self.group.train_epoch(self.epoch)
            step_ms = 1e3 * (time.perf_counter() - begin) / self.steps / len(self.runs)
            self._add(trained, *self._scores(trained), step_ms, begin)
            self.epoch += 1
            if on_epoch:
                self._report(on_epoch, step_ms)
            if time.monotonic() - kept_at > _KEPT_EVERY or self.epoch == self.runs[0].epochs:
                self._keep()
                kept_at = time.monotonic()
        if self.path is not None:
            self._keep_best(self.path.parents[1])
        shared = origin(self.device, 1, len(self.runs))
        return [self._result(number, shared) for number in range(len(self.runs))]

    def _network_state(self) -> dict[str, Tensor]:
        """Weights and buffers of all networks, which change in place."""
        parameters = self.group.networks.parameters
        return {"weight": parameters.flat, **parameters.buffers}

    def _scores(self, trained: LockstepEpoch) -> tuple[dict[str, list[float]], Tensor]:
        """Scores of all runs, and the step in which each diverged, 0 where it did not."""
        metric, found, bad = self.dataset.metric, {}, trained.bad_step
        for name in ("val", "test"):
            output, target = self.group.evaluate(name)
            found[name] = _score_all(metric, output, target.expand(len(self.runs), *target.shape))
            # the last step of the epoch may have broken the weights: no loss of this epoch shows it
            broken = ~output.isfinite().flatten(1).all(1).cpu()
            bad = torch.where(broken & (bad == 0), self.steps, bad)
        if trained.output is None or trained.target is None:
            return {"train": trained.loss.tolist(), **found}, bad
        return {"train": _score_all(metric, trained.output, trained.target), **found}, bad

    def _add(
        self, trained: LockstepEpoch, scores: dict[str, list[float]], bad_step: Tensor, step_ms: float, begin: float
    ) -> None:
        better = torch.zeros(len(self.runs), dtype=torch.bool)
        share = (time.perf_counter() - begin) / len(self.runs)
        for number, run in enumerate(self.runs):
            if self.bad[number] is None and bad_step[number]:
                self.bad[number] = self.epoch + 1, int(bad_step[number])
            if self.bad[number] is not None:  # it goes on as noise that nobody reads
                continue
            numbers = {name: values[number] for name, values in scores.items()}
            known = {"lr": learning_rate(run, self.epoch), "train_loss": float(trained.loss[number])}
            better[number] = self.progress[number].add({**known, **numbers, "seconds": share}, step_ms)
        better = better.to(self.device)
        for name, tensor in self._network_state().items():
            chosen = better.view(-1, *[1] * (tensor.dim() - 1))
            self.best[name] = torch.where(chosen, tensor, self.best[name])

    def _report(self, on_epoch: Callable[[EpochReport], None], step_ms: float) -> None:
        for run, progress, bad in zip(self.runs, self.progress, self.bad, strict=True):
            if bad is None:
                last = {name: values[-1] for name, values in progress.history.items()}
                remaining = progress.remaining_seconds(run.epochs) * len(self.runs)
                rate = 1e3 / step_ms / len(self.runs)
                on_epoch(EpochReport(run, self.epoch, run.epochs, **last, steps_per_second=rate,
                                     remaining_seconds=remaining))  # fmt: skip

    def _result(self, number: int, origin_of_all: dict[str, Any]) -> RunResult:
        run, progress = self.runs[number], self.progress[number]
        history: dict[str, list[float | None]] = {name: [*values] for name, values in progress.history.items()}
        bad = self.bad[number]
        return RunResult(
            key=run.key,
            run=run.to_dict(),
            status="finished" if bad is None else "diverged",
            metric=self.dataset.metric,
            larger_is_better=progress.larger_is_better,
            history=history,
            best_epoch=progress.best_epoch,
            parameters=self.group.networks.count,
            width=self.group.networks.width,
            step_ms=progress.median_step_ms,
            seconds=sum(progress.history["seconds"]),
            engine="lockstep",
            **origin_of_all,
            extra={} if bad is None else {"diverged_epoch": bad[0], "diverged_step": bad[1]},
        )

    def _keep(self) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path.with_name(RUNS_FILE), "\n".join(run.key for run in self.runs).encode())
        parts = {
            "epoch": self.epoch,
            "runs": [run.key for run in self.runs],
            "state": {name: tensor.cpu() for name, tensor in self.group.state().items()},
            "best": {name: tensor.cpu() for name, tensor in self.best.items()},
            "bad": self.bad,
            "history": [progress.history for progress in self.progress],
            "step_ms": [progress.step_ms for progress in self.progress],
            "best_epoch": [progress.best_epoch for progress in self.progress],
        }
        save_parts(self.path, self.runs[0], self.identity, parts)

    def _keep_best(self, folder: Path) -> None:
        """The best weights of every run, where `load_best` looks for them."""
        for number, (run, progress) in enumerate(zip(self.runs, self.progress, strict=True)):
            if progress.best_epoch is not None:
                (folder / run.key).mkdir(parents=True, exist_ok=True)
                buffers = {name: tensor for name, tensor in self.best.items() if name != "weight"}
                model = self.group.networks.parameters.extract(number, self.best["weight"], buffers)
                parts = {"epoch": progress.best_epoch, "model": model}
                save_parts(folder / run.key / "best.pt", run, self.identity, parts)

    def _load(self) -> None:
        if self.path is None or not self.path.exists():
            return
        parts: dict[str, Any] = load_parts(self.path, self.runs[0], self.identity)
        self.epoch, self.bad = parts["epoch"], [None if bad is None else (bad[0], bad[1]) for bad in parts["bad"]]
        for name, tensor in self.group.state().items():
            tensor.copy_(parts["state"][name])
        self.best = {name: tensor.to(self.device) for name, tensor in parts["best"].items()}
        for progress, history, step_ms, best in zip(
            self.progress, parts["history"], parts["step_ms"], parts["best_epoch"], strict=True
        ):
            progress.history, progress.step_ms, progress.best_epoch = history, step_ms, best


def _score_all(metric: str, output: Tensor, target: Tensor) -> list[float]:
    """Scores of K runs; the mean absolute error of all at once, since a call for each takes longer than an epoch."""
    if metric == "mae":
        values: list[float] = (output.double() - target.double()).abs().flatten(1).mean(1).tolist()
        return values
    return [score(metric, one.nan_to_num().cpu(), wanted.cpu()) for one, wanted in zip(output, target, strict=True)]


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
