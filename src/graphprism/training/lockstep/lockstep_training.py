"""A group of runs from its first epoch, or its checkpoint, to its last."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.checkpoint import load_parts, save_parts
from graphprism.training.data_identity import data_identity
from graphprism.training.epoch_report import EpochReport
from graphprism.training.learning_rate import learning_rate
from graphprism.training.lockstep.forget import RUNS_FILE
from graphprism.training.lockstep.lockstep_group import LockstepEpoch, LockstepGroup
from graphprism.training.lockstep.table_dataset import TableDataset
from graphprism.training.origin import origin
from graphprism.training.progress import Progress
from graphprism.training.run import Run
from graphprism.training.score import LARGER_IS_BETTER, score
from graphprism.training.write_whole import write_whole

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
