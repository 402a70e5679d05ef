"""Plain models against those with split edges: the headline of the page."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphprism._text import counted, score_text, short, signed
from graphprism.report.configurations import Configuration, by_data_set, configurations
from graphprism.report.html import Html, join, section, table, tag
from graphprism.results import RunResult, Score

# Quantiles of Student's distribution at 97.5 %, for 1 to 30 degrees of freedom.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def student(freedom: float) -> float:
    """The 97.5 % quantile for this many degrees of freedom; a fraction is rounded down, which widens the interval.

    >>> student(2), student(2.9), round(student(40), 2)
    (4.303, 4.303, 2.02)
    """
    whole = max(1, math.floor(freedom))
    return _STUDENT[whole - 1] if whole <= len(_STUDENT) else 1.96 + 2.372 / whole


@dataclass(frozen=True)
class Comparison:
    """A plain model and the same with split edges, each at its best configuration by validation.

    Attributes:
        dataset, metric: Names of the data set and of the metric.
        larger_is_better: Whether larger scores are better.
        plain, split: The configurations.
        scores: Their test scores.
        half: Half-width of the 95 % interval of the difference of means; None if a side has one run.
        paired: Whether differences are paired by seed and fold.
    """

    dataset: str
    metric: str
    larger_is_better: bool
    plain: Configuration
    split: Configuration
    scores: tuple[Score, Score]
    half: float | None
    paired: bool

    @property
    def difference(self) -> float:
        """Split minus plain."""
        return self.scores[1].mean - self.scores[0].mean

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``within`` if the interval contains 0, or ``ours-alone`` without an interval."""
        if self.half is None:
            return "ours-alone"
        if abs(self.difference) <= self.half:
            return "within"
        return "better" if (self.difference > 0) == self.larger_is_better else "worse"


def compare(runs: Iterable[RunResult]) -> list[Comparison]:
    """One comparison per data set, metric and plain model that was also trained with split edges."""
    found = []
    for (dataset, metric), group in by_data_set(runs).items():
        by_model: dict[str, list[Configuration]] = defaultdict(list)
        for each in configurations(group):
            by_model[str(each.runs[0].run.get("model"))].append(each)
        splits: dict[str, list[Configuration]] = defaultdict(list)
        for model, own in by_model.items():
            if model.startswith("mrs-"):
                splits[plain_partner(model, by_model)] += own
        for partner, own in splits.items():
            plain, split = best_configuration(by_model.get(partner, ())), best_configuration(own)
            if plain is not None and split is not None:
                found.append(_compared(dataset, metric, plain, split))
    return found


def plain_partner(model: str, known: Iterable[str]) -> str:
    """The model without split edges; a trailing number of relations is ignored.

    >>> plain_partner("mrs-dir-gcn", ["dir-gcn"]), plain_partner("mrs-gated-gcn-9", ["gated-gcn"])
    ('dir-gcn', 'gated-gcn')
    """
    name = model.removeprefix("mrs-")
    return name if name in known else re.sub(r"-\d+$", "", name)


def best_configuration(found: Iterable[Configuration]) -> Configuration | None:
    """The best configuration with a test score by validation; those with a diverged run come last."""
    ranked = []
    for place, each in enumerate(found):
        score = mean_score(each, "val")
        if score is not None and mean_score(each, "test") is not None:
            value = -score.mean if each.runs[0].larger_is_better else score.mean
            ranked.append((each.diverged > 0, value, place, each))
    return min(ranked, key=lambda entry: entry[:3])[3] if ranked else None


def mean_score(configuration: Configuration, column: str) -> Score | None:
    """Mean and deviation of a column at the best epoch, over finished runs."""
    values = [run.at_best(column) for run in configuration.runs if run.status == "finished"]
    return Score.of([value for value in values if value is not None])


def _compared(dataset: str, metric: str, plain: Configuration, split: Configuration) -> Comparison:
    tests = [_tests(each) for each in (plain, split)]
    scores = [Score.of(list(each.values())) for each in tests]
    assert scores[0] is not None and scores[1] is not None  # noqa: PT018  # `best_configuration` has looked
    paired = tests[0].keys() == tests[1].keys()
    half: float | None = None
    if paired and len(tests[0]) > 1:
        deviation = Score.of([tests[1][key] - tests[0][key] for key in tests[0]])
        if deviation is not None and deviation.deviation is not None:
            half = student(len(tests[0]) - 1) * deviation.deviation / math.sqrt(len(tests[0]))
    elif min(map(len, tests)) > 1:
        half = _welch(scores[0], scores[1])
    larger = plain.runs[0].larger_is_better
    return Comparison(dataset, metric, larger, plain, split, (scores[0], scores[1]), half, paired)


def _tests(configuration: Configuration) -> dict[tuple[str, str], float]:
    """Test scores by seed and fold."""
    return {
        (str(run.run.get("seed")), str(run.run.get("fold"))): value
        for run in configuration.runs
        if run.status == "finished" and (value := run.at_best("test")) is not None
    }


def _welch(plain: Score, split: Score) -> float:
    errors = [(score.deviation or 0.0) ** 2 / (score.count or 1) for score in (plain, split)]
    total = sum(errors)
    if total == 0:
        return 0.0
    parts = [error**2 / ((score.count or 2) - 1) for error, score in zip(errors, (plain, split), strict=True)]
    return student(total**2 / sum(parts)) * math.sqrt(total)


_WORDS = {
    "better": "▲ better",
    "within": "= no clear difference",
    "worse": "▼ worse",
    "ours-alone": "one run: no interval",
}


def comparison(runs: Sequence[RunResult]) -> Html | None:
    """The headline: a sentence per pair, and the numbers; None if no model has its partner."""
    found = compare(runs)
    if not found:
        return None
    head = ["Data set", "Plain", "Split", "Difference", "95 % interval"]
    rows = [_row(each) for each in found]
    caption = "Test scores at the best epoch by validation, mean and deviation over runs; split minus plain"
    return section(
        "comparison",
        "Plain against split",
        tag("ul", *(tag("li", sentence(each)) for each in found), class_="headlines"),
        table(caption, head, rows, "comparison", numbers=(3,)),
        tag("p", _EXPLAINED, class_="small"),
    )


_EXPLAINED = (
    "Each model stands at its best configuration by validation. The interval is Student's for the difference of means, "
    "of pairs where both have the same seeds and folds, else of two samples (Welch)."
)


def sentence(each: Comparison) -> Html:
    """The difference in words."""
    plain, split = each.scores
    names = [str(config.runs[0].run.get("model")) for config in (each.plain, each.split)]
    change = "against"
    if plain.mean and each.difference:
        share = f"{100 * abs(each.difference / plain.mean):.2g} %"
        change = f"{share} {'above' if each.difference > 0 else 'below'}"
    numbers = f"test {each.metric} of {names[1]} is {short(split.mean)}, {change} {names[0]}'s {short(plain.mean)}"
    return join(tag("b", f"{each.dataset}: "), f"{numbers}; {_ENDS[each.verdict]}.")


_ENDS = {
    "better": "better, and the 95 % interval says so",
    "within": "no clear difference: the 95 % interval holds 0",
    "worse": "worse, and the 95 % interval says so",
    "ours-alone": "a single run of one of them, so no interval",
}


def _row(each: Comparison) -> list[str]:
    digits = 2 if each.larger_is_better and max(score.mean for score in each.scores) > 1 else 3
    interval = (
        tag("span", _WORDS["ours-alone"], class_="small")
        if each.half is None
        else join(
            f"{signed(each.difference - each.half, digits)} to {signed(each.difference + each.half, digits)} ",
            tag("span", _WORDS[each.verdict], class_=f"badge {each.verdict}"),
            _drawing(each),
        )
    )
    return [
        join(each.dataset, tag("div", each.metric, class_="small")),
        _side(each.plain, each.scores[0], digits),
        _side(each.split, each.scores[1], digits),
        signed(each.difference, digits),
        interval,
    ]


def _side(configuration: Configuration, score: Score, digits: int) -> Html:
    about = f"{configuration.label}; {counted(configuration.runs, 'run')}"
    return join(tag("b", score_text(score.mean, score.deviation, digits)), tag("div", about, class_="small"))


def _drawing(each: Comparison) -> Html:
    """Drawing of the interval and zero, scaled to contain both."""
    assert each.half is not None  # checked by `_row`
    ends = [each.difference - each.half, each.difference + each.half]
    reach = max(*map(abs, ends), 1e-12)

    def place(value: float) -> str:
        return f"{60 + 52 * value / reach:.1f}"

    parts = [
        tag("line", x1="60", x2="60", y1="1", y2="17", class_="zero-line"),
        tag("line", x1=place(ends[0]), x2=place(ends[1]), y1="9", y2="9", class_="reach-line"),
        tag("circle", cx=place(each.difference), cy="9", r="4"),
    ]
    return tag("svg", *parts, viewBox="0 0 120 18", class_=f"interval fill {each.verdict}", aria_hidden="true")
