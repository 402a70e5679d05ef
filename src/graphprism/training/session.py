"""The training loop of all engines: epochs, checkpoints, early stopping, divergence and results."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graphprism.results import RunResult
from graphprism.training.checkpoint import Checkpoint, RunFolder
from graphprism.training.engine import Engine, TrainedEpoch
from graphprism.training.provenance import provenance
from graphprism.training.run import Run
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task

COLUMNS = ("lr", "train_loss", "train", "val", "test", "seconds")
# Writing checkpoints takes at most 1/50 of the time; but the wait between two is never more than half a minute.
_SHARE = 50
_LONGEST = 30.0


@dataclass
class Progress:
    """The numbers of all epochs that are finished.

    Attributes:
        larger_is_better: Whether larger scores are better.
        history: One list per name of `COLUMNS`, with one number per epoch.
        step_ms: Time of a training step in each epoch, in milliseconds.
        best_epoch: Epoch of the best validation score, the first of equals, counted from 1; None where there is none.
        kept_epoch: Epoch of the last checkpoint that was written.

    >>> progress = Progress(larger_is_better=False)
    >>> [progress.add({"val": val}, 1.0) for val in (3.0, 2.0, 2.0)], progress.best_epoch
    ([True, True, False], 2)
    """

    larger_is_better: bool
    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    step_ms: list[float] = field(default_factory=list)
    best_epoch: int | None = None
    kept_epoch: int = 0

    @property
    def epoch(self) -> int:
        """Number of epochs that are finished."""
        return len(self.step_ms)

    @property
    def median_step_ms(self) -> float | None:
        """Time of a training step, None before the first."""
        return statistics.median(self.step_ms) if self.step_ms else None

    def epochs_left(self, run: Run) -> int:
        """Epochs until the run is over, if its validation score does not get better."""
        left = run.epochs - self.epoch
        return left if run.patience is None else min(left, run.patience - self.since_best)

    @property
    def since_best(self) -> int:
        """Epochs since the best one."""
        return self.epoch - (self.best_epoch or 0)

    @property
    def best_score(self) -> float | None:
        """The best validation score; None where there is none."""
        return None if self.best_epoch is None else self.history["val"][self.best_epoch - 1]

    def load(self, checkpoint: Checkpoint) -> None:
        """Restores the numbers of a checkpoint that was read from its file."""
        self.history, self.step_ms, self.best_epoch = checkpoint.history, checkpoint.step_ms, checkpoint.best_epoch
        self.kept_epoch = checkpoint.epoch

    def add(self, numbers: dict[str, float], step_ms: float) -> bool:
        """Adds an epoch; returns whether its validation score is the best so far."""
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
    """An epoch that has just ended, for callbacks.

    Attributes:
        run: The run.
        epoch: Number of the epoch, counted from 1.
        epochs: Largest number of epochs.
        lr: Learning rate of the epoch.
        train_loss: Mean loss of the training fold, from the outputs of the training steps.
        train: Score of the same outputs; of a whole graph after the epoch, without dropout, as the other two.
        val: Score on the validation fold, after the epoch.
        test: Score on the test fold, after the epoch.
        steps_per_second: Training steps per second.
        seconds: Time of the epoch, evaluation included.
        remaining_seconds: Estimated time of the remaining epochs, from the mean of those before.
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
    """The loss of a run became NaN or infinite.

    Attributes:
        run: The run.
        epoch: Epoch in which it happened, counted from 1.
        step: Step of that epoch with the first such loss, counted from 1.
        checkpoint: Checkpoint of the last epoch before; None if there is none.
        result: Result of the epochs before, with the status ``"diverged"``.
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
    """Trains K runs epoch by epoch and writes checkpoints that a later session can resume from.

    It owns epochs, the best one by validation, early stopping, divergence, checkpoints, reports and results; an engine
    only trains and evaluates. A run that stops or diverges does not disturb the others. If runs were interrupted at
    different epochs, those that are ahead wait for the others.

    Args:
        engine: Trains and evaluates the runs.
        task: Defines the scores.
        data: Fingerprint of the data set.
        folders: Folders of the checkpoints, one for each run; None writes none.
        checkpoints: Checkpoint to resume each run from; None starts from the beginning.
        extra: Further numbers for the results, one dictionary for each run.
    """

    def __init__(
        self,
        engine: Engine,
        task: Task,
        data: str,
        folders: Sequence[RunFolder] | None = None,
        checkpoints: Sequence[Checkpoint | None] | None = None,
        extra: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        self.engine, self.task, self.runs, self.data = engine, task, engine.runs, data
        self.progress = [Progress(task.larger_is_better) for _ in self.runs]
        self.diverged: list[tuple[int, int] | None] = [None for _ in self.runs]
        self.stopped = [False for _ in self.runs]
        self._extra = extra or [{} for _ in self.runs]
        self._folders = folders
        self._waiting: dict[int, Checkpoint] = {}
        for number, checkpoint in enumerate(checkpoints or ()):
            if checkpoint is not None:
                self.progress[number].load(checkpoint)
                self._waiting[number] = checkpoint
        self._pending: dict[int, Checkpoint] = {}
        self._is_whole, self._due = False, 0.0

    def finish(self, on_epoch: Callable[[EpochReport], object] | None = None) -> list[RunResult]:
        """Trains all remaining epochs; returns a result for each run, also for those that diverged.

        A run stops, with the status ``"stopped"``, if ``on_epoch`` returns True; with several processes it does not.
        """
        try:
            while not all(self._is_over(number) for number in range(len(self.runs))):
                reports = self._next_epoch()
                for number, report in reports.items() if on_epoch is not None else ():
                    wants_stop = on_epoch(report) is True  # type: ignore[misc]
                    # only rank 0 calls it: to stop there alone would deadlock the other ranks
                    self.stopped[number] = wants_stop and self.engine.processes == 1
            self._take_checkpoints()
            self._write()
            self._write_best_of_diverged()
        except OSError:
            raise
        except BaseException:
            # whatever ends the session, Ctrl-C included: keep the last epoch that is complete
            if self._is_whole and self.engine.is_current:
                self._take_checkpoints()
            self._write()
            raise
        shared = provenance(self.engine.device, self.engine.processes, len(self.runs))
        return [self._result(number, shared) for number in range(len(self.runs))]

    def _is_over(self, number: int) -> bool:
        run, progress = self.runs[number], self.progress[number]
        return self.diverged[number] is not None or self.stopped[number] or progress.epochs_left(run) <= 0

    def _next_epoch(self) -> dict[int, EpochReport]:
        over = [self._is_over(number) for number in range(len(self.runs))]
        epoch = min(progress.epoch for progress, done in zip(self.progress, over, strict=True) if not done)
        active = [not done and progress.epoch == epoch for progress, done in zip(self.progress, over, strict=True)]
        resumed = {number: self._waiting.pop(number) for number in list(self._waiting) if active[number]}
        for number, checkpoint in resumed.items():
            progress = self.progress[number]
            self.engine.load(number, checkpoint.state, progress.best_score, progress.since_best)
        self._is_whole = False
        trained = self.engine.train_epoch(epoch, active)
        self._warn_of_other_steps(resumed)
        begin = time.perf_counter()
        scores, is_finite = {"train": trained.score}, [True for _ in self.runs]
        for fold in ("val", "test"):
            scores[fold], good = self.engine.evaluate(fold)
            is_finite = [a and b for a, b in zip(is_finite, good, strict=True)]
        # runs share the time of the device
        share = (trained.seconds + time.perf_counter() - begin) / sum(active)
        better = [False for _ in self.runs]
        for number in [number for number, is_active in enumerate(active) if is_active]:
            # the last step of the epoch may have made the weights NaN, which no loss of this epoch shows
            if bad := trained.bad_step[number] or (0 if is_finite[number] else trained.steps):
                self.diverged[number] = epoch + 1, bad
                continue
            numbers = {name: values[number] for name, values in scores.items()}
            known = {"lr": learning_rate(self.runs[number], epoch), "train_loss": trained.loss[number]}
            better[number] = self.progress[number].add({**known, **numbers, "seconds": share}, trained.step_ms)
        self.engine.keep_best(better)
        self._is_whole = True
        self._keep()
        return {
            number: self._report(number, trained, sum(active))
            for number, is_active in enumerate(active)
            if is_active and self.diverged[number] is None
        }

    @property
    def _steps(self) -> str:
        return f"{self.engine.steps} on {self.engine.device.type}"

    def _warn_of_other_steps(self, resumed: dict[int, Checkpoint]) -> None:
        """Says once that runs are resumed by other steps than those before; on rank 0, which has the folders.

        After the first epoch, since only that shows whether steps are captured, and before its checkpoint.
        """
        others = [number for number, checkpoint in resumed.items() if checkpoint.steps not in ("", self._steps)]
        if not others or self._folders is None:
            return
        first = resumed[others[0]]
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        warnings.warn(
            f"{self.runs[others[0]].title}{more} was trained by {first.steps} up to epoch {first.epoch} and goes on by "
            f"{self._steps}: its bits will differ from those of a run without interruption; for the same bits resume "
            "it as it was begun",
            stacklevel=2,
        )

    def _report(self, number: int, trained: TrainedEpoch, sharing: int) -> EpochReport:
        run, progress = self.runs[number], self.progress[number]
        mean = statistics.fmean(progress.history["seconds"])
        return EpochReport(
            run,
            progress.epoch,
            run.epochs,
            **{name: values[-1] for name, values in progress.history.items()},
            steps_per_second=trained.steps / max(trained.seconds, 1e-9),
            remaining_seconds=mean * progress.epochs_left(run) * sharing,
        )

    def _keep(self) -> None:
        """Copies states if that is cheap or due, and writes checkpoints if they are due."""
        if self._folders is None or not self.engine.is_current:
            return
        is_due = time.monotonic() >= self._due
        # engines may continue to train the weights of a run that is over
        has_ended = any(self._is_over(number) and not self._is_taken(number) for number in range(len(self.runs)))
        if is_due or has_ended or len(self.runs) == 1:
            self._take_checkpoints()
        if is_due:
            self._write()

    def _take_checkpoints(self) -> None:
        """Copies the state of every run that has no checkpoint of its last epoch yet."""
        if self._folders is None:
            return
        for number, progress in enumerate(self.progress):
            if not self._is_taken(number):
                history = {name: [*values] for name, values in progress.history.items()}
                state = self.engine.state(number)
                numbers = (history, [*progress.step_ms], progress.best_epoch)
                self._pending[number] = Checkpoint(state, *numbers, self._steps)

    def _is_taken(self, number: int) -> bool:
        """Whether a checkpoint of the last epoch exists already, or cannot be taken."""
        progress, pending = self.progress[number], self._pending.get(number)
        taken = progress.kept_epoch if pending is None else pending.epoch
        return taken == progress.epoch or self.diverged[number] is not None

    def _write_best_of_diverged(self) -> None:
        """Writes the best weights of diverged runs; those of their last epoch may be lost."""
        for number, progress in enumerate(self.progress):
            if self._folders is not None and self.diverged[number] is not None and progress.best_epoch is not None:
                self._folders[number].write_best(progress.best_epoch, self.engine.state(number)["best"])

    def _write(self) -> None:
        if not self._pending or self._folders is None:
            return
        begin = time.monotonic()
        for number, checkpoint in list(self._pending.items()):
            self._folders[number].save(checkpoint)
            self.progress[number].kept_epoch = checkpoint.epoch
            del self._pending[number]
        end = time.monotonic()
        self._due = end + min(_LONGEST, _SHARE * (end - begin))

    def _is_cut(self, number: int) -> bool:
        return self.stopped[number] and self.progress[number].epochs_left(self.runs[number]) > 0

    def _result(self, number: int, shared: dict[str, Any]) -> RunResult:
        run, progress, diverged = self.runs[number], self.progress[number], self.diverged[number]
        history: dict[str, list[float | None]] = {name: [*values] for name, values in progress.history.items()}
        where = {} if diverged is None else {"diverged_epoch": diverged[0], "diverged_step": diverged[1]}
        return RunResult(
            key=run.key,
            run=run.to_dict(),
            status="diverged" if diverged is not None else "stopped" if self._is_cut(number) else "finished",
            metric=self.task.metric,
            larger_is_better=self.task.larger_is_better,
            history=history,
            best_epoch=progress.best_epoch,
            parameters=self.engine.parameters(number),
            width=self.engine.width(number),
            step_ms=progress.median_step_ms,
            seconds=math.fsum(progress.history["seconds"]),
            engine=self.engine.name,
            data=self.data,
            **shared,
            extra={**self._extra[number], **where},
        )


@contextmanager
def restore_torch_state(device: torch.device) -> Iterator[None]:
    """Enables TF32 on a GPU; restores that setting and all random states at exit."""
    on_gpu, before = device.type == "cuda", torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        try:
            if on_gpu:
                torch.set_float32_matmul_precision("high")
            yield
        finally:
            torch.set_float32_matmul_precision(before)
