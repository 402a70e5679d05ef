"""What was run where, and with what."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence

from graphprism.report.formats import counted, duration, short
from graphprism.report.markup import Html, tag
from graphprism.report.sections import section, table
from graphprism.results import RunResult


def places(runs: Sequence[RunResult]) -> Html | None:
    """Hardware by engine, then versions and commits; None without runs."""
    if not runs:
        return None
    groups: dict[tuple[str, str, str], list[RunResult]] = defaultdict(list)
    for run in runs:
        groups[hardware(run), run.engine, short(run.hardware.get("runs_at_once"))].append(run)
    rows = [_row(*place, group) for place, group in sorted(groups.items())]
    head = ["Hardware", "Engine", "Runs at once", "Runs", "Time", "Median step (ms)"]
    where = table("Hardware and engine of all runs", head, rows, numbers=range(2, 6))
    return section("places", "What was run where", where, _versions(runs))


def hardware(run: RunResult) -> str:
    """Its name, with a number where there are several."""
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
    changed = any(commit.endswith("+") for commit in commits)
    note = tag("p", "A commit that ends in + was changed since.", class_="small") if changed else None
    return tag("div", table("Versions", ["What", "Version (runs)"], rows), note)


def _counts(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({counted(count, 'run')})" for value, count in counts.most_common())
