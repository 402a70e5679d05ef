"""The section that lists all runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from graphprism._text import counted, duration, fixed, short
from graphprism.report.configurations import run_title, splits_edges
from graphprism.report.html import Html, caption_of, join, scroll, section, tag
from graphprism.report.summary import LookUp, look_up
from graphprism.results import RunResult, finite


@dataclass(frozen=True)
class Column:
    """A column of the list of runs.

    Attributes:
        name: Its heading.
        value: Returns the sort key of a run.
        text: Formats a value.
        about: Tooltip of the heading.
    """

    name: str
    value: Callable[[RunResult], Any]
    text: Callable[[Any], str] = short
    about: str | None = None


# Scores come first, so that they are visible at a width of 1024 pixels; settings follow.
COLUMNS: Sequence[Column] = (
    Column("dataset", lambda run: run.run.get("dataset")),
    Column("metric", lambda run: run.metric),
    Column("val", lambda run: run.at_best("val"), about="best validation score"),
    Column("test", lambda run: run.at_best("test"), about="test score at the best epoch"),
    Column("train", lambda run: run.smallest("train_loss"), about="smallest training loss of all epochs"),
    Column("best epoch", lambda run: run.best_epoch, about="epoch of the best validation score"),
    Column("parameters", lambda run: run.parameters, lambda value: fixed(value, 0)),
    Column("time", lambda run: run.seconds, duration),
    Column("model", lambda run: run.run.get("model")),
    Column("split", lambda run: run.run.get("split") if splits_edges(run.run) else None),
    Column("layers", lambda run: run.run.get("layers")),
    Column("width", lambda run: run.width),
    Column("lr", lambda run: run.run.get("lr"), about="largest learning rate"),
    Column("seed", lambda run: run.run.get("seed")),
    Column("step ms", lambda run: run.step_ms, about="median time of a training step; of runs in lockstep their share"),
    Column("engine", lambda run: run.engine),
    Column("device", lambda run: run.hardware.get("name") or run.hardware.get("device")),
)


def run_row(run: RunResult) -> Html:
    """A row, with the full run in a fold-out under its title and a badge if it diverged or a look-up is close."""
    diverged = run.status != "finished"
    mark = tag("span", f"✖ {run.status}", class_="badge worse") if diverged else None
    name = tag("summary", run_title(run.run), " " if mark else None, mark)
    whole = tag("pre", json.dumps(_whole(run), indent=1, default=str))
    cells = (_cell(column, run) for column in COLUMNS)
    heading = tag("th", tag("details", name, whole), scope="row")
    return tag("tr", heading, *cells, data_key=run.key, class_="diverged" if diverged else None)


def _cell(column: Column, run: RunResult) -> Html:
    value = column.value(run)
    number = isinstance(value, int | float)
    text = column.text(value)
    # The script sorts by the text of a cell, or by `data-v` if the text is no plain number.
    sort_key = str(value) if number and text != str(value) else None
    found = look_up(run) if column.name == "test" else None
    return tag("td", text, _beside(found) if found else None, class_="number" if number else None, data_v=sort_key)


def _beside(found: LookUp) -> Html:
    """Scores of baselines without a model, and a warning if they are close."""
    majority = "" if found.majority is None else f", majority {short(found.majority)}"
    text = tag("div", f"look-up {short(found.lookup)}{majority}", class_="small")
    close = tag("div", tag("span", "⚠ look-up is close", class_="badge warning")) if found.close else None
    return join(text, close)


def _whole(run: RunResult) -> dict[str, Any]:
    """The full result except the history, which is most of a ledger."""
    epochs = max((len(values) for values in run.history.values()), default=0)
    values = {each.name: getattr(run, each.name) for each in fields(run)}
    plain: dict[str, Any] = finite({**values, "history": f"{epochs} epochs, in the ledger"})
    return plain


def run_list(runs: Sequence[RunResult]) -> Html | None:
    """A sortable and filterable table; None without runs."""
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
    """A filter by value of a field; the script matches it with the column of this index."""
    column = 1 + [each.name for each in COLUMNS].index(field)
    values = sorted({str(run.run[field]) for run in runs if run.run.get(field) is not None})
    options = [tag("option", "all", value=""), *(tag("option", value, value=value) for value in values)]
    return tag("label", f"{field} ", tag("select", *options, data_column=str(column)))
