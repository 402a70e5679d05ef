"""Score by number of layers, a line per model and remedy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from graphprism._text import score_text, short
from graphprism.report.comparison import best_configuration, mean_score, plain_partner
from graphprism.report.configurations import Configuration, by_data_set, configurations, describe_run
from graphprism.report.html import Html, join, section, table, tag
from graphprism.results import RunResult, Score

# Fields that do not identify a line: depth, and hyper-parameters chosen by validation at each point.
_CHOSEN = ("layers", "lr")
# More lines than this are illegible; those with the best test score at any depth are kept.
MOST = 16
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760.0, 320.0, 56.0, 14.0, 14.0, 40.0

Line = dict[int, Score]


def depth_lines(runs: Sequence[RunResult]) -> dict[str, Line]:
    """Test score by layers for each model and remedy with at least two depths, at the best configuration by validation.

    All runs must have one data set and metric.
    """
    families: dict[str, dict[int, list[Configuration]]] = defaultdict(lambda: defaultdict(list))
    for each in configurations(runs):
        run = each.runs[0].run
        layers = run.get("layers")
        if isinstance(layers, int):
            name = describe_run({key: value for key, value in run.items() if key not in _CHOSEN})
            families[name][layers].append(each)
    lines = {name: _line(by_depth) for name, by_depth in families.items()}
    return {name: line for name, line in lines.items() if len(line) > 1}


def _line(by_depth: dict[int, list[Configuration]]) -> Line:
    chosen = {layers: best_configuration(found) for layers, found in sorted(by_depth.items())}
    scores = {layers: mean_score(each, "test") for layers, each in chosen.items() if each is not None}
    return {layers: score for layers, score in scores.items() if score is not None}


def depth(runs: Sequence[RunResult]) -> Html | None:
    """A drawing per data set and metric with several depths; None without any."""
    panels = [
        _panel(dataset, metric, lines, group[0].larger_is_better)
        for (dataset, metric), group in by_data_set(runs).items()
        if (lines := depth_lines(group))
    ]
    lead = "Test score at the best configuration by validation; a bar is one standard deviation over runs."
    return section("depth", "Score by depth", tag("p", lead, class_="lead"), *panels) if panels else None


def _panel(dataset: str, metric: str, lines: dict[str, Line], larger: bool) -> Html:
    def best(line: Line) -> float:
        values = [score.mean for score in line.values()]
        return -max(values) if larger else min(values)

    kept = {name: lines[name] for name in sorted(lines, key=lambda name: best(lines[name]))[:MOST]}
    styles = _styles(list(kept))
    direction = "larger is better" if larger else "smaller is better"
    heading = tag("h3", dataset, " ", tag("small", f"test {metric}, {direction}"))
    drawing = tag("div", _drawing(kept, styles, f"Test {metric} by layers on {dataset}"), class_="depth-chart")
    legend = tag("ul", *(_entry(name, styles[name]) for name in kept), class_="depth-legend")
    depths = sorted({layers for line in kept.values() for layers in line})
    rows = [[name, *(_cell(line.get(layers)) for layers in depths)] for name, line in kept.items()]
    head = ["Layers", *map(str, depths)]
    numbers = table(f"Test {metric} by layers", head, rows, numbers=range(1, len(head)))
    return tag("div", heading, drawing, legend, tag("details", tag("summary", "Numbers"), numbers), class_="panel")


def _styles(names: Sequence[str]) -> dict[str, str]:
    """A colour per remedy and plain model; solid for models with split edges, dashed for their partners."""
    slots: dict[str, int] = {}
    styles = {}
    for name in names:
        model, _, rest = name.partition(",")
        splits = model.startswith("mrs-")
        family = plain_partner(model.partition(" by ")[0], ()) + rest
        slot = slots.setdefault(family, len(slots))
        styles[name] = f"slot{slot % 8} dash{0 if splits else 1}"
    return styles


def _entry(name: str, style: str) -> Html:
    line = tag("svg", tag("path", d="M0 5H30", class_="line"), viewBox="0 0 30 10", aria_hidden="true")
    return tag("li", line, name, class_=style)


def _cell(score: Score | None) -> str:
    return "" if score is None else score_text(score.mean, score.deviation, 3)


def _drawing(lines: dict[str, Line], styles: dict[str, str], label: str) -> Html:
    depths = sorted({layers for line in lines.values() for layers in line})
    means = [score.mean for line in lines.values() for score in line.values()]
    room = (max(means) - min(means) or abs(max(means)) or 1.0) * 0.06
    low, high = min(means) - room, max(means) + room
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def x(layers: int) -> float:
        if depths[0] < 1 or depths[-1] < 8 * depths[0]:
            return _LEFT + (right - _LEFT) * (layers - depths[0]) / (depths[-1] - depths[0])
        return _LEFT + (right - _LEFT) * math.log(layers / depths[0]) / math.log(depths[-1] / depths[0])

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * (min(max(value, low), high) - low) / (high - low)

    axes = [
        join(
            tag("line", x1=f"{_LEFT}", x2=f"{right}", y1=f"{y(tick):.1f}", y2=f"{y(tick):.1f}", class_="grid"),
            tag("text", short(tick), x=f"{_LEFT - 8}", y=f"{y(tick) + 4:.1f}", text_anchor="end"),
        )
        for tick in ticks(low, high)
    ]
    axes += [
        tag("text", str(layers), x=f"{x(layers):.1f}", y=f"{bottom + 18}", text_anchor="middle") for layers in depths
    ]
    axes.append(tag("text", "layers", x=f"{right}", y=f"{_HEIGHT - 4}", text_anchor="end"))
    groups = []
    for name, line in lines.items():
        path = "".join(
            f"{'L' if at else 'M'}{x(layers):.1f} {y(line[layers].mean):.1f}" for at, layers in enumerate(line)
        )
        bars = [
            tag(
                "line",
                x1=f"{x(layers):.1f}",
                x2=f"{x(layers):.1f}",
                y1=f"{y(score.mean - (score.deviation or 0)):.1f}",
                y2=f"{y(score.mean + (score.deviation or 0)):.1f}",
                class_="bar-line",
            )
            for layers, score in line.items()
            if score.deviation
        ]
        dots = [
            tag("circle", cx=f"{x(layers):.1f}", cy=f"{y(score.mean):.1f}", r="3.5", class_="dot")
            for layers, score in line.items()
        ]
        groups.append(tag("g", tag("path", d=path, class_="line"), *bars, *dots, class_=styles[name]))
    return tag("svg", *axes, *groups, viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img", aria_label=label)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from ``low`` to ``high``.

    >>> ticks(0.24, 0.61)
    [0.3, 0.4, 0.5, 0.6]
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= 0.75 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(each * step, 12) for each in range(first, last + 1)]
