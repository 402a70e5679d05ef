"""Tables as the paper prints them, with our numbers in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphprism._text import MINUS, counted, duration, fixed, score_text, signed
from graphprism.report.html import Html, caption_of, identifier, join, screen_reader_only, scroll, section, table, tag
from graphprism.report.overview import badge, is_published
from graphprism.report.summary import LookUp, look_up
from graphprism.report.verdict import Verdict, best_cells, verdict
from graphprism.results import Cell, CellStatus, RunResult, Score, TableResult

Best = Mapping[str, set[tuple[str, str]]]


def tables(results: Sequence[TableResult], runs: Mapping[str, RunResult]) -> Html:
    """Every table as a section; ``runs`` maps the keys in cells to results."""
    return join(*(_table(result, runs) for result in results))


def _table(result: TableResult, runs: Mapping[str, RunResult]) -> Html:
    best = {side: best_cells(result, side) for side in ("ours", "paper")}
    head = tag("tr", tag("td", result.unit, class_="unit"), *(tag("th", name, scope="col") for name in result.columns))
    body = [tag("tr", tag("th", row, scope="row"), *_row(result, row, best, runs)) for row in result.rows]
    caption = caption_of(_direction(result), f" Quoted from: {result.source}" if result.source else None)
    drawn = tag("table", caption, tag("thead", head), tag("tbody", *body), class_="paper")
    notes = tag("ul", *(tag("li", note) for note in result.notes), class_="notes") if result.notes else None
    name, beside = f"table-{identifier(result.name)}", _side_by_side(result, runs)
    return section(name, result.title, scroll(result.title, drawn), notes, beside)


def _direction(result: TableResult) -> str:
    if result.larger_is_better is None:
        return f"{result.unit}." if result.unit else ""
    return f"{result.unit or 'Score'}, {'larger' if result.larger_is_better else 'smaller'} is better."


def _row(result: TableResult, row: str, best: Best, runs: Mapping[str, RunResult]) -> list[Html]:
    cells = (result.cell(row, column) for column in result.columns)
    return [
        _cell(cell, result, best, runs) if cell else tag("td", "—", screen_reader_only("no number")) for cell in cells
    ]


def _cell(cell: Cell, result: TableResult, best: Best, runs: Mapping[str, RunResult]) -> Html:
    kind = verdict(cell, result)
    place, digits = (cell.row, cell.column), result.digits
    lines = [
        _score("", cell.ours, digits, place in best["ours"], "ours"),
        _gap(cell, kind, digits) if is_published(result) or cell.ours is None else None,
        _score("quoted ", cell.paper, digits, place in best["paper"], "quoted"),
        _behind(cell),
        _warning(cell, runs, digits),
        _note(cell),
    ]
    return tag("td", *lines, class_=f"cell {kind.css}")


def _score(word: str, value: Score | None, digits: int, is_best: bool, css: str) -> Html | None:
    if value is None:
        return None
    mean, space, rest = score_text_with_tiny(value, digits).partition(" ")
    return tag(
        "div", word, tag("b", mean, screen_reader_only(" (best)")) if is_best else mean, space + rest, class_=css
    )


def score_text_with_tiny(value: Score, digits: int) -> str:
    """A single number; one that would be rounded to zero, such as a tiny distance, gets more digits."""
    if value.deviation is None and 0 < abs(value.mean) < 0.5 * 10**-digits:
        return f"{value.mean:.1e}".replace("-", MINUS)
    return score_text(value.mean, value.deviation, digits)


def _gap(cell: Cell, kind: Verdict, digits: int) -> Html:
    return tag("div", badge(kind, "" if cell.gap is None else signed(cell.gap, digits)))


def _behind(cell: Cell) -> Html | None:
    """Number of seeds, as a link to their runs, and their time."""
    if cell.ours is None:
        return None
    count = cell.ours.count or len(cell.runs)
    text = counted(count, "seed" if cell.runs else "repeat") if count else ""
    label = f"behind {cell.row}, {cell.column}"
    keys = " ".join(cell.runs)
    seeds = tag("a", text, href="#runs", data_runs=keys, data_label=label) if keys else text
    time = duration(cell.seconds)
    return tag("div", seeds, " · " if text and time else None, time, class_="small")


def _note(cell: Cell) -> Html | None:
    """The note, and a remark if the data are missing, which the verdict does not tell."""
    parts = ["no data" if cell.status is CellStatus.NO_DATA else "", cell.note]
    text = "; ".join(part for part in parts if part)
    return tag("div", text, class_="small note") if text else None


def _warning(cell: Cell, runs: Mapping[str, RunResult], digits: int) -> Html | None:
    """The look-up score of a cell's runs, and a warning if it is close in any of them."""
    found = [each for key in cell.runs if key in runs and (each := look_up(runs[key]))]
    if not found or cell.ours is None:
        return None
    text = f"look-up {fixed(_looked_up(cell, runs), digits)}"
    if not any(each.close for each in found):
        return tag("div", text, class_="small")
    return tag("div", tag("span", f"⚠ {text}, close", class_="badge warning"))


# Columns of `_side_by_side` for each column of the table.
_SIDES = ("quoted", "re-run", "look-up", "over look-up")


def _side_by_side(result: TableResult, runs: Mapping[str, RunResult]) -> Html | None:
    """Quoted, re-run and look-up scores of every row, if the runs of the table have look-ups.

    A look-up uses the edges that the model sees, so that it differs between directed and undirected graphs.
    """
    columns = [name for name in result.columns if any(_looked_up(cell, runs) for cell in _column(result, name))]
    if not columns:
        return None
    cells = {(cell.row, cell.column): cell for name in columns for cell in _column(result, name)}
    rows = [
        [row, *(text for name in columns for text in _sides(cells.get((row, name)), runs, result.digits))]
        for row in dict.fromkeys(row for row, _ in cells)
    ]
    head = ["", *(f"{name}, {side}" for name in columns for side in _SIDES)]
    caption = f"{result.title}: quoted, re-run, and what copying a training node with the same edges scores."
    drawn = table(caption, head, rows, numbers=range(1, len(head)))
    return tag("details", tag("summary", "Quoted, re-run and look-up side by side"), drawn)


def _column(result: TableResult, name: str) -> list[Cell]:
    """Cells of a column with a run or a quoted number; rows of baselines have neither."""
    return [cell for cell in result.cells if cell.column == name and (cell.runs or cell.paper is not None)]


def _looked_up(cell: Cell, runs: Mapping[str, RunResult]) -> float | None:
    """Mean look-up score of a cell's runs, in the unit of its score; None if none has one."""
    found = [each for key in cell.runs if key in runs and (each := look_up(runs[key]))]
    if not found or cell.ours is None:
        return None
    return math.fsum(each.lookup for each in found) / len(found) * _scale(cell.ours, found)


def _sides(cell: Cell | None, runs: Mapping[str, RunResult], digits: int) -> list[str]:
    if cell is None:
        return ["—"] * len(_SIDES)
    lookup = _looked_up(cell, runs)
    scores = [
        "—" if score is None else score_text(score.mean, score.deviation, digits) for score in (cell.paper, cell.ours)
    ]
    if lookup is None or cell.ours is None:
        return [*scores, "—", "—"]
    return [*scores, fixed(lookup, digits), signed(cell.ours.mean - lookup, digits)]


def _scale(ours: Score, found: Sequence[LookUp]) -> float:
    """Factor between the unit of a table and that of its runs: a table may print shares in percent."""
    return 100.0 if ours.mean > 1 and all(max(each.score, each.lookup) <= 1 for each in found) else 1.0
