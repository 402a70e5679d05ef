"""A table on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphprism.experiments.make_table import NOT_PUBLISHED
from graphprism.results import Cell, Score, TableResult

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

# Cells that a note names; of more it gives the number.
_MOST_NAMED = 5


def show_table(result: TableResult) -> Group:
    """Ours, the published number, their gap, the seeds and the time of every cell; depth has six columns in 100."""
    from rich.console import Group
    from rich.text import Text

    notes = [*_cell_notes(result), *result.notes, f"Published numbers: {result.source}."]
    return Group(Text(result.title, style="bold"), _table(result), *(Text(note) for note in notes))


def _table(result: TableResult) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), collapse_padding=True)
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for column in result.columns:
        table.add_column(column, justify="right")
    for row in result.rows:
        cells = [result.cell(row, column) for column in result.columns]
        lines = _lines(cells, result.digits)
        for number, (label, texts) in enumerate(lines):
            last = number == len(lines) - 1
            table.add_row(
                "" if number else row, label, *texts, end_section=last, style="dim" if label == "paper" else ""
            )
    return table


def _lines(cells: list[Cell | None], digits: int) -> list[tuple[str, list[str]]]:
    there = [Cell("", "") if cell is None else cell for cell in cells]
    lines = [
        ("ours", [score_text(cell.ours, digits) for cell in there]),
        ("paper", [score_text(cell.paper, digits) for cell in there]),
        ("gap", [_gap(cell, digits) for cell in there]),
        ("runs", [_runs(cell) for cell in there]),
    ]
    # A line without a number says nothing; a row always has the first two.
    return [line for number, line in enumerate(lines) if number < 2 or any(line[1])]


def score_text(score: Score | None, digits: int) -> str:
    """Mean and deviation with so many digits after the point.

    >>> score_text(Score(0.3175, 0.004, 3), 3), score_text(Score(498200), 0), score_text(None, 3)
    ('0.318±0.004', '498,200', '-')
    """
    if score is None:
        return "-"
    deviation = "" if score.deviation is None else f"±{score.deviation:.{digits}f}"
    return f"{score.mean:,.{digits}f}{deviation}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is short.

    >>> duration(7.3), duration(600), duration(40_000)
    ('7.3 s', '10 min', '11.1 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _gap(cell: Cell, digits: int) -> str:
    if cell.gap is None:
        return ""
    return f"{cell.gap:+,.{digits}f}{'*' if NOT_PUBLISHED in cell.note else ''}"


def _runs(cell: Cell) -> str:
    """Seeds behind a cell and the time that they took together."""
    if cell.ours is None or not cell.runs or cell.seconds is None:
        return ""
    return f"{cell.ours.count} in {duration(cell.seconds)}"


def _cell_notes(result: TableResult) -> list[str]:
    """Each note of a cell once, with the cells it is about."""
    places: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.note:
            places.setdefault(cell.note, []).append(f"{cell.row} {cell.column}")
    return [f"{_where(at, len(result.cells))}: {note}." for note, at in places.items()]


def _where(places: list[str], cells: int) -> str:
    if len(places) == cells:
        return "All cells"
    return ", ".join(places) if len(places) <= _MOST_NAMED else f"{len(places)} of {cells} cells"
