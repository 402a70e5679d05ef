"""How the number of a table is read off a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from graphprism.results import RunResult

_Read = Callable[[RunResult], float | None]


@dataclass(frozen=True)
class Reading:
    """A number of a result, and the number by which the best of several configurations is chosen.

    Attributes:
        words: What it is.
        value: The number of a table.
        choose: The number whose mean over seeds decides between configurations.
        largest: Whether the largest mean is best; None where the metric of the result says it.
        chosen_by: What decides, in words.
    """

    words: str
    value: _Read
    choose: _Read
    largest: bool | None
    chosen_by: str


def _smallest_loss(result: RunResult) -> float | None:
    return result.smallest("train_loss")


def _best_train(result: RunResult) -> float | None:
    scores = [score for score in result.history.get("train", []) if score is not None]
    return (max if result.larger_is_better else min)(scores, default=None)


def _test(result: RunResult) -> float | None:
    return result.at_best("test")


def _validation(result: RunResult) -> float | None:
    return result.at_best("val")


def _step(result: RunResult) -> float | None:
    return result.step_ms


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        "test": Reading("test score at the epoch of best validation", _test, _validation, None, "validation score"),
        "train-loss": Reading("smallest training loss", _smallest_loss, _smallest_loss, False, "training loss"),
        "train-score": Reading("best score on the training set", _best_train, _best_train, None, "training score"),
        "step-ms": Reading("median time of a training step in ms", _step, _step, False, "time of a step"),
    }
)
