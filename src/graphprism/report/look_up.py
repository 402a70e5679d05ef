"""How near a look-up without parameters comes to a trained model."""

from __future__ import annotations

from dataclasses import dataclass

from graphprism.results import RunResult

POINTS = 10.0
SHARE = 0.9


@dataclass(frozen=True)
class LookUp:
    """Scores that need no model, beside the score of the run.

    Attributes:
        score: Test score of the run at its best epoch.
        lookup: Score of copying the label of a like training node.
        majority: Score of always naming the most frequent class; None where it was not taken.
        close: Whether the look-up comes within 10 points of the model or, where smaller is better, within 90 %.
    """

    score: float
    lookup: float
    majority: float | None
    close: bool


def look_up(result: RunResult) -> LookUp | None:
    """Reads it from ``extra``; None where the run has no look-up or no score."""
    lookup, majority = (_number(result.extra.get(name)) for name in ("lookup", "majority"))
    score = result.at_best("test")
    if lookup is None or score is None:
        return None
    return LookUp(score, lookup, majority, _close(score, lookup, result.larger_is_better))


def _close(score: float, lookup: float, larger_is_better: bool) -> bool:
    if not larger_is_better:  # an error has no points, so its share decides
        return lookup * SHARE <= score
    # A score of at most 1 is a share, of which a hundredth is a point.
    points = POINTS if max(abs(score), abs(lookup)) > 1 else POINTS / 100
    return score - lookup <= points


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
