"""The interface of engines, which train K >= 1 runs side by side for a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

import torch
from torch import Tensor

from graphprism.training.run import Run


class RunState(TypedDict):
    """A run after an epoch, on the CPU, in a form that every engine writes and reads.

    Permutations of data and dropout depend on seed and epoch only, so no random state is stored.

    Attributes:
        model: Weights and buffers by name.
        first: First moments of Adam by the name of the parameter; empty before the first step.
        second: Second moments, likewise.
        steps: Steps that the optimiser has taken.
        best: Weights and buffers at the best epoch so far; None where there is none.
    """

    model: dict[str, Tensor]
    first: dict[str, Tensor]
    second: dict[str, Tensor]
    steps: int
    best: dict[str, Tensor] | None


@dataclass(frozen=True)
class TrainedEpoch:
    """Numbers of one epoch of training, one per run, on the CPU.

    Attributes:
        loss: Mean training losses.
        score: Scores of the outputs of the training steps.
        bad_step: First step whose loss was not finite, counted from 1; 0 where all were.
        steps: Steps of the epoch.
        step_ms: Time of a step of one run.
        seconds: Time of the epoch, all runs together.
    """

    loss: list[float]
    score: list[float]
    bad_step: list[int]
    steps: int
    step_ms: float
    seconds: float


class Engine(Protocol):
    """Networks, optimisers and data of K runs.

    Attributes:
        name: Name of the engine in results.
        runs: The runs.
        device: The device that they are trained on.
        processes: Number of processes that train them together.
        steps: How steps are taken, such as ``"captured steps"``: others add in another order, with other bits. Known
            for certain after the first epoch.
        width: Channels of a hidden layer.
        parameters: Trained parameters of one run.
    """

    name: str
    runs: list[Run]
    device: torch.device
    processes: int

    @property
    def steps(self) -> str:
        """How steps are taken."""

    def width(self, number: int) -> int:
        """Channels of a hidden layer of a run."""

    def parameters(self, number: int) -> int:
        """Trained parameters of a run."""

    def train_epoch(self, epoch: int, active: Sequence[bool]) -> TrainedEpoch:
        """One pass over the training data; epochs count from 0. Results of inactive runs have no meaning."""

    def evaluate(self, fold: str) -> tuple[list[float], list[bool]]:
        """Scores on ``"val"`` or ``"test"`` after the last epoch, and whether all outputs were finite."""

    def keep_best(self, better: Sequence[bool]) -> None:
        """Keeps a copy of the weights of those runs whose last epoch is their best so far."""

    @property
    def is_current(self) -> bool:
        """Whether no run is ahead of the last epoch that was returned, so that `state` belongs to that epoch."""

    def state(self, number: int) -> RunState:
        """A copy of everything that is needed to resume a run."""

    def load(self, number: int, state: RunState, best_score: float | None, since_best: int) -> None:
        """Restores a `state` of this engine or another.

        Args:
            number: Which run.
            state: Its state.
            best_score: The best validation score so far.
            since_best: Epochs since then.
        """
