"""An MRS model beside its plain partner, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from graphprism.cli.train_table import by_setting, mean_at_best
from graphprism.results import RunResult, Score

# Widths are whole numbers, so that two models of one budget differ by a few parameters in a hundred.
_EQUAL = 0.03


def compare_partners(results: Sequence[RunResult]) -> list[str]:
    """A sentence for each MRS model whose plain partner is there, too, each at its best learning rate by validation."""
    best: dict[str, list[RunResult]] = {}
    for group in by_setting(results):
        model, validation = group[0].run["model"], mean_at_best(group, "val")
        if validation is not None and (model not in best or _is_better(group, validation, best[model])):
            best[model] = group
    pairs = ((best[model], best.get(_partner(model))) for model in best if model.startswith("mrs-"))
    return [_sentence(mrs, plain) for mrs, plain in pairs if plain is not None]


def _is_better(group: Sequence[RunResult], score: Score, than: Sequence[RunResult]) -> bool:
    other = mean_at_best(than, "val")
    return other is None or (score.mean > other.mean) == group[0].larger_is_better


def _partner(model: str) -> str:
    return model.removeprefix("mrs-").removesuffix("-9")


def _sentence(mrs: Sequence[RunResult], plain: Sequence[RunResult]) -> str:
    name, partner = mrs[0].run["model"], plain[0].run["model"]
    ours, theirs = mean_at_best(mrs, "test"), mean_at_best(plain, "test")
    if ours is None or theirs is None or theirs.mean == 0:
        return f"{name} and {partner} have no test scores to compare."
    change = ours.mean / theirs.mean - 1
    what = mrs[0].metric if mrs[0].larger_is_better else "error"
    side = "above" if change > 0 else "below"
    return f"{name}'s {what} is {abs(change):.0%} {side} {partner}'s {_parameters(mrs[0], plain[0])}.".replace(
        "%", " %"
    )


def _parameters(mrs: RunResult, plain: RunResult) -> str:
    if abs(mrs.parameters - plain.parameters) <= _EQUAL * plain.parameters:
        return "at equal parameters"
    return f"with {mrs.parameters:,} against {plain.parameters:,} parameters"
