"""A run from its first epoch, or its checkpoint, to its last."""

from __future__ import annotations

import math
import time
from typing import Any, NoReturn

from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.checkpoint import Checkpoint
from graphprism.training.diverged import Diverged
from graphprism.training.engine import Engine, TrainedEpoch
from graphprism.training.epoch_report import EpochReport
from graphprism.training.learning_rate import learning_rate
from graphprism.training.origin import origin
from graphprism.training.progress import Progress
from graphprism.training.run_folder import RunFolder
from graphprism.training.score import LARGER_IS_BETTER, score


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
