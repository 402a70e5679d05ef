"""How far a run on nodes has come, and whether it goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphprism.training.node.node_run import NodeRun

COLUMNS = ("lr", "train_loss", "train", "val", "test", "seconds")


class NodeProgress:
    """Numbers of all epochs so far; stops after ``patience`` epochs without a better validation accuracy.

    >>> progress = NodeProgress(NodeRun(patience=2))
    >>> for accuracy in (50.0, 60.0, 60.0, 55.0, 70.0):
    ...     progress.add((1.0, 80.0, accuracy, 40.0), seconds=0.1)
    >>> progress.best_epoch, progress.epoch, progress.finished
    (2, 4, True)
    """

    def __init__(self, run: NodeRun, history: Mapping[str, list[float]] | None = None) -> None:
        self.run = run
        self.history: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.best_epoch = 0
        self.diverged = False
        for numbers in zip(*(history[name] for name in COLUMNS[1:]), strict=True) if history else ():
            self.add(numbers[:4], numbers[4])

    @property
    def epoch(self) -> int:
        """Number of epochs that count."""
        return len(self.history["val"])

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        run = self.run
        return self.diverged or self.epoch >= run.epochs or self.epoch - self.best_epoch >= run.patience

    def add(self, numbers: tuple[float, ...], seconds: float) -> None:
        """Counts one more epoch, unless the run was over before it: a device may run ahead of these decisions."""
        if self.finished:
            return
        loss, train, val, test = numbers
        for name, value in zip(COLUMNS, (self.run.lr, loss, train, val, test, seconds), strict=True):
            self.history[name].append(value)
        if not math.isfinite(loss):
            self.diverged = True
        elif self.best_epoch == 0 or val > self.history["val"][self.best_epoch - 1]:
            self.best_epoch = self.epoch
