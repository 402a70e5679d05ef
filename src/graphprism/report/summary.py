"""The summary at the top of the page, and the provenance of its runs."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphprism._text import counted, duration, short
from graphprism.report.configurations import changed_data
from graphprism.report.html import Html, section, table, tag
from graphprism.results import RunResult, TableResult


def provenance(runs: Sequence[RunResult]) -> Html | None:
    """Hardware by engine, then versions and commits; None without runs."""
    if not runs:
        return None
    groups: dict[tuple[str, str, str], list[RunResult]] = defaultdict(list)
    for run in runs:
        groups[hardware(run), run.engine, short(run.hardware.get("runs_at_once"))].append(run)
    rows = [_row(*place, group) for place, group in sorted(groups.items())]
    head = ["Hardware", "Engine", "Runs at once", "Runs", "Time", "Median step (ms a run)"]
    where = table("Hardware and engine of all runs", head, rows, numbers=range(2, 6))
    return section("places", "What was run where", where, _versions(runs))


def hardware(run: RunResult) -> str:
    """Name of the hardware, with the number of devices if there are several."""
    name = str(run.hardware.get("name") or run.hardware.get("device") or "unknown")
    count = run.hardware.get("count")
    return f"{count} × {name}" if isinstance(count, int) and count > 1 else name


def _row(place: str, engine: str, at_once: str, runs: Sequence[RunResult]) -> list[str]:
    steps = [run.step_ms for run in runs if run.step_ms is not None]
    step = short(float(statistics.median(steps))) if steps else ""
    return [place, engine, at_once, f"{len(runs):,}", duration(sum(run.seconds for run in runs)), step]


def _versions(runs: Sequence[RunResult]) -> Html:
    packages = dict.fromkeys(name for run in runs for name in run.versions)
    rows = [[name, _counts(Counter(run.versions[name] for run in runs if name in run.versions))] for name in packages]
    commits = Counter(run.commit or "unknown" for run in runs)
    rows.append(["commit", tag("span", _counts(commits), class_="mono")])
    known = Counter("known" if run.data else "unknown" for run in runs)
    rows.append(["fingerprint of the data", _counts(known)])
    changed = any(commit.endswith("+") for commit in commits)
    note = tag("p", "A commit that ends in + was changed since.", class_="small") if changed else None
    return tag("div", table("Versions", ["What", "Version (runs)"], rows), note)


def _counts(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({counted(count, 'run')})" for value, count in counts.most_common())


POINTS = 10.0
SHARE = 0.9


@dataclass(frozen=True)
class LookUp:
    """Scores of baselines without a model, beside the score of the run.

    Attributes:
        score: Test score of the run at its best epoch.
        lookup: Score of copying the label of a training node with the same neighbours.
        majority: Score of the most frequent class; None if it was not measured.
        close: Whether the look-up is within 10 points of the model or, for errors, within 90 %.
    """

    score: float
    lookup: float
    majority: float | None
    close: bool


def look_up(result: RunResult) -> LookUp | None:
    """Reads it from ``extra``; None if the run has no look-up or no score."""
    lookup, majority = (_number(result.extra.get(name)) for name in ("lookup", "majority"))
    score = result.at_best("test")
    if lookup is None or score is None:
        return None
    return LookUp(score, lookup, majority, _close(score, lookup, result.larger_is_better))


def _close(score: float, lookup: float, larger_is_better: bool) -> bool:
    if not larger_is_better:  # errors are compared by their ratio, accuracies by points
        return lookup * SHARE <= score
    return score - lookup <= POINTS


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def summary(tables: Sequence[TableResult], runs: Sequence[RunResult]) -> Html | None:
    """Number of runs and cells, hardware, total time and versions; None without results."""
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
    """Diverged runs, close look-ups and data sets that changed between runs; None without any."""
    diverged = sum(run.status != "finished" for run in runs)
    found = [each for run in runs if (each := look_up(run)) and each.close]
    lines = [
        f"✖ {counted(diverged, 'run')} diverged: the loss was not a finite number." if diverged else None,
        f"⚠ In {counted(found, 'run')} a look-up without parameters comes within 10 points or 90 % of the model."
        if found
        else None,
        *map(_data_warning, changed_data(runs).items()),
    ]
    items = [tag("li", line) for line in lines if line]
    return tag("ul", *items, class_="warnings") if items else None


def _data_warning(changed: tuple[str, Counter[str]]) -> str:
    name, counts = changed
    versions = ", ".join(f"{data[:9]} in {counted(count, 'run')}" for data, count in counts.most_common())
    return f"⚠ The data of {name} differ between runs: fingerprints {versions}."


def _tile(name: str, value: str, more: str) -> Html:
    return tag("div", tag("dt", name), tag("dd", value), tag("dd", more, class_="small"))


def _short_commit(commit: str) -> str:
    """The first nine characters, and the ``+`` of uncommitted changes."""
    return commit[:9] + ("+" if commit.endswith("+") else "")


def _most(values: Iterable[str]) -> tuple[str, str]:
    """The most frequent value, and the number of others."""
    counts = Counter(values)
    if not counts:
        return "–", ""
    others = len(counts) - 1
    return counts.most_common(1)[0][0], f"and {counted(others, 'other')}" if others else ""


def _days(runs: Sequence[RunResult]) -> str:
    # Non-breaking hyphens keep a date on one line.
    days = sorted(run.finished_at[:10].replace("-", "\u2011") for run in runs if run.finished_at)
    if not days:
        return ""
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
