"""What a run has reached so far."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

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
