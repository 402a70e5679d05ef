"""The part of the page that lists all runs."""

from __future__ import annotations

from collections.abc import Sequence

from graphprism.report.formats import counted
from graphprism.report.markup import Html, tag
from graphprism.report.run_row import COLUMNS, run_row
from graphprism.report.sections import caption_of, scroll, section
from graphprism.results import RunResult


def run_list(runs: Sequence[RunResult]) -> Html | None:
    """A table that can be sorted by every column and filtered; None without runs."""
    if not runs:
        return None
    names = [("run", None), *((column.name, column.about) for column in COLUMNS)]
    head = tag("tr", *(_heading(name, about) for name, about in names))
    body = tag("tbody", *map(run_row, runs))
    drawn = tag("table", caption_of("All runs; open one to read it whole"), tag("thead", head), body, class_="runs")
    return section("runs", "Runs", _filters(runs), scroll("All runs", drawn, "scroll tall"))


def _heading(name: str, about: str | None) -> Html:
    return tag("th", tag("button", name, type="button", title=about), scope="col", aria_sort="none")


def _filters(runs: Sequence[RunResult]) -> Html:
    words = tag("input", type="search", id="filter", placeholder="such as mrs-gcn 16", autocomplete="off")
    choices = (_select(field, runs) for field in ("dataset", "model"))
    clear = tag("button", "show all", type="button", id="filter-clear", hidden=True)
    count = tag("output", counted(runs, "run"), id="filter-count")
    return tag("div", tag("label", "Filter ", words), *choices, clear, count, class_="filters")


def _select(field: str, runs: Sequence[RunResult]) -> Html:
    """A choice of one value of a field; its number is the column that the script looks into."""
    column = 1 + [each.name for each in COLUMNS].index(field)
    values = sorted({str(run.run[field]) for run in runs if run.run.get(field) is not None})
    options = [tag("option", "all", value=""), *(tag("option", value, value=value) for value in values)]
    return tag("label", f"{field} ", tag("select", *options, data_column=str(column)))
