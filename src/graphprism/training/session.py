"""A run from its first epoch, or its checkpoint, to its last."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.checkpoint import Checkpoint, RunFolder
from graphprism.training.eager import Engine, TrainedEpoch
from graphprism.training.optim import learning_rate
from graphprism.training.provenance import origin
from graphprism.training.run import Run
from graphprism.training.task import LARGER_IS_BETTER, score

COLUMNS = ("lr", "train_loss", "train", "val", "test", "seconds")


@dataclass
class Progress:
    """The numbers of all epochs that are finished.

    Attributes:
        larger_is_better: Of the scores.
        history: One list per name of `COLUMNS`, with one number per epoch.
        step_ms: Time of a training step in each epoch, in milliseconds.
        best_epoch: Epoch of the best validation score, the first of equals, counted from 1; None where there is none.

    >>> progress = Progress(larger_is_better=False)
    >>> [progress.add({"val": val}, 1.0) for val in (3.0, 2.0, 2.0)], progress.best_epoch
    ([True, True, False], 2)
    """

    larger_is_better: bool
    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    step_ms: list[float] = field(default_factory=list)
    best_epoch: int | None = None

    @property
    def epoch(self) -> int:
        """Number of epochs that are finished."""
        return len(self.step_ms)

    @property
    def median_step_ms(self) -> float | None:
        """Time of a training step, None before the first."""
        return statistics.median(self.step_ms) if self.step_ms else None

    def remaining_seconds(self, epochs: int) -> float:
        """What the epochs up to ``epochs`` will take, if they take as long as those before."""
        return statistics.fmean(self.history["seconds"]) * (epochs - self.epoch)

    def add(self, numbers: dict[str, float], step_ms: float) -> bool:
        """Adds an epoch; says whether its validation score is the best so far."""
        for name, value in numbers.items():
            self.history[name].append(value)
        self.step_ms.append(step_ms)
        better = self._is_better(numbers["val"])
        self.best_epoch = self.epoch if better else self.best_epoch
        return better

    def _is_better(self, val: float) -> bool:
        if math.isnan(val) or self.best_epoch is None:
            return not math.isnan(val)
        best = self.history["val"][self.best_epoch - 1]
        return val > best if self.larger_is_better else val < best


@dataclass(frozen=True)
class EpochReport:
    """An epoch that has just ended, for whoever watches a run.

    Attributes:
        run: The run.
        epoch: Which epoch has ended, counted from 1.
        epochs: How many there will be.
        lr: Learning rate of the epoch.
        train_loss: Mean loss over the training graphs, taken while training.
        train: Score of the same outputs.
        val: Score on the validation graphs, after the epoch.
        test: Score on the test graphs, after the epoch.
        steps_per_second: Training steps a second.
        seconds: Time of the epoch, evaluation included.
        remaining_seconds: What the epochs that are left will take, if they take as long as those before.
    """

    run: Run
    epoch: int
    epochs: int
    lr: float
    train_loss: float
    train: float
    val: float
    test: float
    steps_per_second: float
    seconds: float
    remaining_seconds: float


class Diverged(ValueError):
    """The loss of a run is not a finite number any more.

    Attributes:
        run: The run.
        epoch: Epoch in which it happened, counted from 1.
        step: Step of that epoch with the first such loss, counted from 1.
        checkpoint: Where the last epoch before it is kept; None where nothing is.
        result: The run up to there, with the status ``"diverged"``.
    """

    def __init__(self, run: Run, epoch: int, step: int, checkpoint: Path | None, result: RunResult) -> None:
        kept = f"epoch {epoch - 1} is in {checkpoint}" if checkpoint else "no checkpoint was written"
        super().__init__(
            f"the loss of {run.title} was not a finite number in epoch {epoch}, step {step}; {kept}; "
            f"try a smaller learning rate than {run.lr:g}"
        )
        self.run, self.epoch, self.step, self.checkpoint, self.result = run, epoch, step, checkpoint, result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.epoch, self.step, self.checkpoint, self.result)


class Session:
    """Runs epochs one by one and keeps what a later session needs to go on.

    Args:
        engine: What trains.
        dataset: Its data; the metric counts.
        keeper: Where to keep checkpoints; None keeps none.
        checkpoint: Where to go on; None begins.
    """

    def __init__(
        self, engine: Engine, dataset: PackedDataset, keeper: RunFolder | None, checkpoint: Checkpoint | None
    ) -> None:
        self.engine, self.run, self.metric, self.keeper = engine, engine.run, dataset.metric, keeper
        self.progress = Progress(LARGER_IS_BETTER[dataset.metric])
        self._best: dict[str, Tensor] | None = None
        if checkpoint is not None:
            engine.load(checkpoint.model, checkpoint.optimizer)
            self.progress.history, self.progress.step_ms = checkpoint.history, checkpoint.step_ms
            self.progress.best_epoch, self._best = checkpoint.best_epoch, checkpoint.best

    @property
    def is_finished(self) -> bool:
        """Whether all epochs are done."""
        return self.progress.epoch >= self.run.epochs

    def next_epoch(self) -> EpochReport:
        """Trains and evaluates one epoch and keeps it."""
        begin, epoch = time.perf_counter(), self.progress.epoch
        trained = self.engine.train_epoch(epoch)
        if trained.bad_step is not None:
            self._diverge(trained.bad_step)
        scores = self._scores(trained)
        seconds = time.perf_counter() - begin
        numbers = {"lr": learning_rate(self.run, epoch), "train_loss": trained.loss, **scores, "seconds": seconds}
        self._keep(self.progress.add(numbers, trained.step_ms))
        rate = trained.losses.numel() / trained.seconds
        return EpochReport(
            self.run,
            self.progress.epoch,
            self.run.epochs,
            **numbers,
            steps_per_second=rate,
            remaining_seconds=self.progress.remaining_seconds(self.run.epochs),
        )

    def result(self, status: str = "finished") -> RunResult:
        """The run so far."""
        progress, engine = self.progress, self.engine
        history: dict[str, list[float | None]] = {name: [*values] for name, values in progress.history.items()}
        return RunResult(
            key=self.run.key,
            run=self.run.to_dict(),
            status=status,
            metric=self.metric,
            larger_is_better=progress.larger_is_better,
            history=history,
            best_epoch=progress.best_epoch,
            parameters=sum(each.numel() for each in engine.network.parameters()),
            width=engine.width,
            step_ms=progress.median_step_ms,
            seconds=math.fsum(progress.history["seconds"]),
            engine="eager",
            **origin(engine.fabric.device, engine.fabric.world_size),
        )

    def _scores(self, trained: TrainedEpoch) -> dict[str, float]:
        found = {"train": (trained.output, trained.target)}
        found |= {name: self.engine.evaluate(name) for name in ("val", "test")}
        if not all(bool(output.isfinite().all()) for output, _ in found.values()):
            # the last step of the epoch has broken the weights: no loss of this epoch shows it
            self._diverge(trained.losses.numel())
        return {name: score(self.metric, output, target) for name, (output, target) in found.items()}

    def _keep(self, improved: bool) -> None:
        if self.keeper is None:
            return
        state: dict[str, Any] = self.engine.state()
        if improved:
            self._best = state["model"]
        history = {name: [*values] for name, values in self.progress.history.items()}
        kept = Checkpoint(
            **state,
            history=history,
            step_ms=[*self.progress.step_ms],
            best_epoch=self.progress.best_epoch,
            best=self._best,
        )
        self.keeper.keep(kept, now=self.is_finished)

    def _diverge(self, step: int) -> NoReturn:
        path = self.keeper.checkpoint if self.keeper is not None and self.progress.epoch else None
        raise Diverged(self.run, self.progress.epoch + 1, step, path, self.result("diverged"))


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Products of float32 are in TF32 on a GPU; afterwards that and random states are what they were."""
    on_gpu, before = device.type == "cuda", torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        try:
            if on_gpu:
                torch.set_float32_matmul_precision("high")
            yield
        finally:
            torch.set_float32_matmul_precision(before)
