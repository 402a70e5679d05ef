"""The top of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graphprism.report.formats import counted, duration
from graphprism.report.look_up import look_up
from graphprism.report.markup import Html, tag
from graphprism.report.places import hardware
from graphprism.results import RunResult, TableResult


def summary(tables: Sequence[TableResult], runs: Sequence[RunResult]) -> Html | None:
    """How much there is, what it ran on, how long it took and with which versions; None where there is nothing."""
    if not tables and not runs:
        return None
    cells = [cell for table in tables for cell in table.cells]
    filled = sum(cell.ours is not None for cell in cells)
    diverged = sum(run.status != "finished" for run in runs)
    facts = [
        ("Tables", f"{len(tables):,}", f"{filled:,} of {counted(cells, 'cell')} run"),
        ("Runs", f"{len(runs):,}", f"{diverged:,} diverged" if diverged else "all finished" if runs else ""),
        ("Time", duration(sum(run.seconds for run in runs)) if runs else "–", _days(runs)),
        ("Hardware", *_most(map(hardware, runs))),
        ("Versions", *_most(f"torch {run.versions['torch']}" for run in runs if "torch" in run.versions)),
        ("Commit", *_most(_short_commit(run.commit) for run in runs if run.commit)),
    ]
    return tag("dl", *(_tile(*fact) for fact in facts), class_="tiles")


def warnings(runs: Sequence[RunResult]) -> Html | None:
    """What a reader has to know before the numbers; None where there is nothing of the kind."""
    diverged = sum(run.status != "finished" for run in runs)
    found = [each for run in runs if (each := look_up(run)) and each.close]
    lines = [
        f"✖ {counted(diverged, 'run')} diverged: the loss was not a finite number." if diverged else None,
        f"⚠ In {counted(found, 'run')} a look-up without parameters comes within 10 points or 90 % of the model."
        if found
        else None,
    ]
    items = [tag("li", line) for line in lines if line]
    return tag("ul", *items, class_="warnings") if items else None


def _tile(name: str, value: str, more: str) -> Html:
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", more, class_="small"))


def _short_commit(commit: str) -> str:
    """Nine letters are enough to find it, and the sign of a change stays."""
    return commit[:9] + ("+" if commit.endswith("+") else "")


def _most(values: Iterable[str]) -> tuple[str, str]:
    """The most frequent value, and how many others there are."""
    counts = Counter(values)
    if not counts:
        return "–", ""
    others = len(counts) - 1
    return counts.most_common(1)[0][0], f"and {counted(others, 'other')}" if others else ""


def _days(runs: Sequence[RunResult]) -> str:
    # Hyphens that do not break keep a day on one line.
    days = sorted(run.finished_at[:10].replace("-", "\u2011") for run in runs if run.finished_at)
    if not days:
        return ""
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
