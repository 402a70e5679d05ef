"""A run that cannot go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphprism.results import RunResult
from graphprism.training.run import Run


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
