"""What is known after an epoch."""

from __future__ import annotations

from dataclasses import dataclass

from graphprism.training.run import Run


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
