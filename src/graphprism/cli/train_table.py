"""Results of ``graphprism train`` as a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from graphprism._text import counted, duration, score_text, uncut_table
from graphprism.nn import CONVOLUTIONS
from graphprism.results import RunResult, Score
from graphprism.training import METRICS


def train_table(results: Sequence[RunResult]) -> Table:
    """One row per model and learning rate: parameters, mean scores over seeds, total time.

    ``train`` is the smallest training loss; ``val`` and ``test`` are scores at the epoch of best validation.
    """
    metric = results[0].metric
    scores = f"val {score_heading(metric)}", f"test {score_heading(metric)}"
    with_rate = len({result.run["lr"] for result in results}) > 1
    rows = []
    for group in by_setting(results):
        name = group[0].run["model"] + (f", lr {group[0].run['lr']:g}" if with_rate else "")
        time = duration(sum(result.seconds for result in group), narrow=True)
        rows.append((name, f"{group[0].parameters:,}", *_scores(group), time))
    header = ("model", "parameters", "train loss", *scores, "time")
    return uncut_table(header, rows, range(1, len(header)), title=f"{results[0].run['dataset']}: {_seeds(results)}")


def score_heading(metric: str) -> str:
    """Name and unit of a score above its column.

    >>> score_heading("accuracy"), score_heading("mae")
    ('accuracy (%)', 'MAE')
    """
    found = METRICS[metric]
    return f"{metric} (%)" if found.is_percent else found.unit


def by_setting(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Groups results that differ only in fold and seed."""

    def setting(result: RunResult) -> tuple[str, float]:
        return result.run["model"], result.run["lr"]

    return [list(group) for _, group in groupby(results, setting)]


def mean_at_best(group: Sequence[RunResult], column: str) -> Score | None:
    """Mean score of a column at the epoch of best validation; None if a run diverged or has no score."""
    values = [result.at_best(column) for result in group if result.status == "finished"]
    return Score.of([each for each in values if each is not None]) if len(values) == len(group) else None


def _scores(group: Sequence[RunResult]) -> list[str]:
    diverged = sum(result.status == "diverged" for result in group)
    if diverged:
        return [f"{diverged} of {len(group)} diverged" if len(group) > 1 else "diverged", "", ""]
    losses = [loss for result in group if (loss := result.smallest("train_loss")) is not None]
    is_percent = METRICS[group[0].metric].is_percent
    scores = (mean_at_best(group, column) for column in ("val", "test"))
    return [_score(Score.of(losses)), *(_score(each, is_percent) for each in scores)]


def _score(score: Score | None, is_percent: bool = False) -> str:
    if score is None:
        return "none"
    # Beside a deviation a fourth digit is noise, and the table would exceed 80 columns.
    digits = 2 if is_percent else 4 if score.deviation is None else 3
    return score_text(score.mean, score.deviation, digits)


def _seeds(results: Sequence[RunResult]) -> str:
    seeds = list(dict.fromkeys(result.run["seed"] for result in results))
    folds = list(dict.fromkeys(result.run["fold"] for result in results))
    parts = [counted(each, name) for name, each in (("fold", folds), ("seed", seeds)) if len(each) > 1]
    return f"mean and deviation of {' and '.join(parts)}" if parts else f"seed {seeds[0]}"


# Widths are integers, so that models of one budget differ by a few percent of the parameters.
_EQUAL = 0.03


def compare_partners(results: Sequence[RunResult]) -> list[str]:
    """A sentence per MRS model with results of its plain partner, each at its best learning rate by validation."""
    best: dict[str, list[RunResult]] = {}
    for group in by_setting(results):
        model, validation = group[0].run["model"], mean_at_best(group, "val")
        if validation is not None and (model not in best or _is_better(group, validation, best[model])):
            best[model] = group
    relational = [CONVOLUTIONS[model] for model in best if CONVOLUTIONS[model].relational]
    pairs = ((best[conv.name], best.get(conv.partner or "")) for conv in relational)
    return [_sentence(mrs, plain) for mrs, plain in pairs if plain is not None]


def _is_better(group: Sequence[RunResult], score: Score, than: Sequence[RunResult]) -> bool:
    other = mean_at_best(than, "val")
    return other is None or (score.mean > other.mean) == group[0].larger_is_better


def _sentence(mrs: Sequence[RunResult], plain: Sequence[RunResult]) -> str:
    name, partner = mrs[0].run["model"], plain[0].run["model"]
    ours, theirs = mean_at_best(mrs, "test"), mean_at_best(plain, "test")
    if ours is None or theirs is None:
        return f"{name} and {partner} have no test scores to compare."
    what = mrs[0].metric if mrs[0].larger_is_better else "error"
    if ours.mean == theirs.mean:
        return f"{name}'s {what} equals {partner}'s {_parameters(mrs[0], plain[0])}."
    side = "above" if ours.mean > theirs.mean else "below"
    if theirs.mean == 0:  # an F1 of 0: no share of it
        amount = f"{abs(ours.mean):.3g}"
    else:
        change = abs(ours.mean / theirs.mean - 1)
        amount = f"{100 * change:.0f} %" if change >= 0.005 else "less than 0.5 %"
    if METRICS[mrs[0].metric].is_percent:  # a percentage of a percentage would read as points
        points = abs(ours.mean - theirs.mean)
        amount = f"{points:.1f} points" if points >= 0.05 else "less than 0.05 points"
    deviations = (ours.deviation or 0.0) + (theirs.deviation or 0.0)
    noise = ", within the deviations" if abs(ours.mean - theirs.mean) <= deviations else ""
    return f"{name}'s {what} is {amount} {side} {partner}'s {_parameters(mrs[0], plain[0])}{noise}."


def _parameters(mrs: RunResult, plain: RunResult) -> str:
    if abs(mrs.parameters - plain.parameters) <= _EQUAL * plain.parameters:
        return "at equal parameters"
    return f"with {mrs.parameters:,} against {plain.parameters:,} parameters"
