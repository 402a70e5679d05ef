"""Every cell of the tables as one page of Markdown, for reading where the repository is shown."""

from __future__ import annotations

from collections.abc import Sequence

from graphprism._text import counted, duration, score_text, signed
from graphprism.report.tables import score_text_with_tiny
from graphprism.results import Cell, CellStatus, TableResult

_HEADER = ("", "", "ours", "runs", "time", "published", "verdict", "note")
_INTRODUCTION = """\
# The tables, cell by cell

Written by `{command}`
from the ledgers there; a test compares the two. *Ours* is the mean and the deviation (ddof 1) over the runs, with the
published hyper-parameters unless the note says others; *time* is that of all its runs together. The verdict says in
which deviation the gap between the two means lies, each widened by half a unit of the last published digit: *inside
both*, *inside the published* or *inside ours* alone, or *outside both*; of 100 cells whose two sides are runs of one
and the same distribution, 21 would lie outside both with three runs a side, 2 with ten. *Other protocol*: the number is
of other hyper-parameters or of a share of a step, as the note says, and the gap says nothing. *Not run* comes with the
hours that the runs of the cell would take, by the pace of similar stored runs on an H200; networks with feed-forward
blocks or random walks, while none is stored, by the pace of GCN+ with four runs at once: 0.35 ms for a step of 32
molecules, 12 layers of 64 channels; GIN+ and GatedGCN+ take 1.5 and 2 times as long.
"""


def deviations_verdict(cell: Cell, digits: int) -> str:
    """Text that says within which of the two deviations the gap lies, if it says anything; empty without a gap.

    >>> from graphprism.results import Score
    >>> deviations_verdict(Cell("GCN", "Test", Score(0.40, 0.01, 3), Score(0.41, 0.002, 3)), 3)
    'inside ours'
    """
    if cell.gap is None or cell.ours is None or cell.paper is None:
        return ""
    if cell.status is CellStatus.OTHER_PROTOCOL:
        return "other protocol"
    half = 0.5 * 10**-digits * (1 + 1e-9)
    sides = {"ours": cell.ours.deviation, "the published": cell.paper.deviation}
    known = {side: abs(cell.gap) <= deviation + half for side, deviation in sides.items() if deviation is not None}
    inside = [side for side, is_inside in known.items() if is_inside]
    if not known:
        return "the same" if abs(cell.gap) <= half else "differs"
    if len(known) == 1:
        (side,) = known
        return f"inside {side}" if inside else f"outside {side}"
    return {0: "outside both", 1: f"inside {''.join(inside)}", 2: "inside both"}[len(inside)]


def paper_page(tables: Sequence[TableResult], command: str, absent: Sequence[str] = ()) -> str:
    """The page, a deterministic function of the results.

    Args:
        tables: Tables, in order.
        command: Command that writes the page.
        absent: Names of tables and figures without stored results.
    """
    header = ("table", "cells", "run", "inside both", "inside one", "outside both", "other protocol", "not run")
    rest = [f"Nothing is stored of: {', '.join(absent)}.\n"] if absent else []
    parts = [_INTRODUCTION.format(command=command), _rows([header, *map(_counts, tables)]), *rest, *map(_table, tables)]
    return "\n".join(parts)


def _counts(table: TableResult) -> tuple[str, ...]:
    words = [deviations_verdict(cell, table.digits) for cell in table.cells]
    ran = sum(cell.ours is not None for cell in table.cells)
    one = sum(word.startswith("inside") and word != "inside both" for word in words)
    outside = sum(word.startswith("outside") for word in words)
    not_run = sum(cell.is_missing for cell in table.cells)
    numbers = (len(table.cells), ran, words.count("inside both"), one, outside, words.count("other protocol"), not_run)
    return (f"[{table.name}](#{table.name})", *map(str, numbers))


def _table(table: TableResult) -> str:
    rows = _wide(table) if _is_wide(table) else [_HEADER, *(_cell(cell, table.digits) for cell in table.cells)]
    unit = f" {table.unit}." if table.unit else ""
    head = f"\n## {table.name}\n\n{_text(table.title)}.{unit} Published: {_text(table.source)}.\n"
    notes = "\n".join(f"- {_text(note)}" for note in table.notes)
    beside = _side_by_side(table)
    return "\n".join(
        [head, _rows(rows), *([_BESIDE, _rows(beside)] if beside else []), *([notes, ""] if notes else [])]
    )


def _by_row(table: TableResult) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in table.cells:
        found.setdefault(cell.row, []).append(cell)
    return found


def _is_wide(table: TableResult) -> bool:
    """Whether nothing is published and the columns are several numbers of the same runs: a line for each row."""
    if len(table.columns) == 1 or any(cell.paper is not None for cell in table.cells):
        return False
    return all(
        len({cell.note for cell in cells}) == 1 and all(set(cell.runs) <= set(cells[0].runs) for cell in cells)
        for cells in _by_row(table).values()
    )


def _wide(table: TableResult) -> list[tuple[str, ...]]:
    lines = [("", *map(_text, table.columns), "runs", "time", "note")]
    for row, cells in _by_row(table).items():
        by_column = {cell.column: cell for cell in cells}
        values = [by_column.get(column, Cell(row, column)).ours for column in table.columns]
        scores = ["" if value is None else score_text_with_tiny(value, table.digits) for value in values]
        _, _, _, runs, time, _, verdict, note = _cell(cells[0], table.digits)
        note = "; ".join(part for part in (verdict, note) if part)
        lines.append((_text(row), *scores, runs, time, note))
    return lines


_BESIDE = "Quoted, re-run, and by how much that is above a look-up, which has no parameters:\n"
_LOOK_UP = "Look-up"


def _side_by_side(table: TableResult) -> list[tuple[str, ...]]:
    """Quoted, re-run and look-up scores of every row, in the columns that have a look-up; empty without one."""
    look_up = {cell.column: cell.ours for cell in table.cells if cell.row == _LOOK_UP and cell.ours is not None}
    quoted = {cell.row for cell in table.cells if cell.paper is not None}
    if not look_up or not quoted:
        return []
    sides = ("quoted", "re-run", "over look-up")
    lines = [("", *(_text(f"{column}, {side}") for column in look_up for side in sides))]
    for row, cells in _by_row(table).items():
        if row not in quoted:
            continue
        by_column = {cell.column: cell for cell in cells}
        line = [_text(row)]
        for column, reference in look_up.items():
            cell = by_column.get(column, Cell(row, column))
            scores = [
                "" if each is None else score_text(each.mean, each.deviation, table.digits)
                for each in (cell.paper, cell.ours)
            ]
            line += [*scores, "" if cell.ours is None else signed(cell.ours.mean - reference.mean, table.digits)]
        lines.append(tuple(line))
    last = [
        text for score in look_up.values() for text in ("", score_text(score.mean, score.deviation, table.digits), "")
    ]
    return [*lines, (_LOOK_UP, *last)]


def _cell(cell: Cell, digits: int) -> tuple[str, ...]:
    ours = "" if cell.ours is None else score_text(cell.ours.mean, cell.ours.deviation, digits)
    paper = "" if cell.paper is None else score_text(cell.paper.mean, cell.paper.deviation, digits)
    count = 0 if cell.ours is None else cell.ours.count or 0
    runs = counted(count, "run" if cell.runs else "repeat") if count else ""
    time = duration(cell.seconds) if cell.ours is not None and cell.seconds else ""
    verdict = deviations_verdict(cell, digits) if cell.ours is not None else _WITHOUT_OURS[cell.status]
    if cell.has_no_value:
        verdict = "no value"
    return tuple(map(_text, (cell.row, cell.column, ours, runs, time, paper, verdict, cell.note)))


_WITHOUT_OURS = {
    CellStatus.MEASURED: "not run",
    CellStatus.OTHER_PROTOCOL: "other protocol",
    CellStatus.QUOTED: "quoted",
    CellStatus.NOT_RUN: "**not run**",
    CellStatus.NO_DATA: "no data",
    CellStatus.DIVERGED: "diverged",
}


def _rows(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _text(text: str) -> str:
    """Escapes characters with a meaning in Markdown tables or HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ").removesuffix(".")
