"""How our number of a cell compares with the published one."""

from __future__ import annotations

import re
from enum import Enum

from graphprism.results import Cell, CellStatus, Score, TableResult

# Whether larger is better, by the word in brackets of a column: the metrics of `graphprism.training.task.METRICS`,
# repeated here to avoid importing torch (a test compares the two), and others of published tables.
METRICS = {
    **dict.fromkeys(("ap", "auroc", "accuracy", "f1", "hits@10", "hits@20", "hits@50", "hits@100"), True),
    **dict.fromkeys(("mae", "rmse", "ce", "ms"), False),
}


def larger_is_better(table: TableResult, column: str) -> bool | None:
    """The direction of the table or, where its columns differ, that of the metric in brackets in the column's name.

    >>> mixed = TableResult("t", "", "", ("GCN",), ("Test (AP)", "Test (MAE)", "Width"), (), larger_is_better=None)
    >>> [larger_is_better(mixed, column) for column in mixed.columns]
    [True, False, None]
    """
    if table.larger_is_better is not None:
        return table.larger_is_better
    metric = re.search(r"\(([^()]*)\)$", column)
    return METRICS.get(metric[1].lower()) if metric else None


class Verdict(Enum):
    """Verdicts, each with a sign and a label, so that they differ in more than colour."""

    BETTER = ("▲", "better")
    WITHIN = ("≈", "within")
    WORSE = ("▼", "worse")
    DIFFERS = ("≠", "differs")
    OTHER_PROTOCOL = ("∗", "other protocol")
    OURS_ALONE = ("○", "ours alone")
    NOT_RUN = ("–", "not run")

    def __init__(self, sign: str, label: str) -> None:
        self.sign = sign
        self.label = label

    @property
    def css(self) -> str:
        """CSS class."""
        return self.label.replace(" ", "-")


def verdict(cell: Cell, table: TableResult) -> Verdict:
    """Compares the gap with the published deviation plus half a unit of the last printed digit."""
    if cell.ours is None:
        return Verdict.NOT_RUN
    gap = cell.gap
    if cell.paper is None or gap is None:
        return Verdict.OURS_ALONE
    if cell.status is CellStatus.OTHER_PROTOCOL:
        return Verdict.OTHER_PROTOCOL
    # Published numbers are rounded: numbers that print alike are equal, even if the deviation prints as 0.
    within = (cell.paper.deviation or 0.0) + 0.5 * 10**-table.digits
    if abs(gap) <= within * (1 + 1e-9):
        return Verdict.WITHIN
    larger = larger_is_better(table, cell.column)
    if larger is None:
        return Verdict.DIFFERS
    return Verdict.BETTER if (gap > 0) == larger else Verdict.WORSE


PREFIX = "MRS-"


def best_cells(table: TableResult, side: str) -> set[tuple[str, str]]:
    """Positions of the best scores, as (row, column).

    A model and its partner with split edges are a pair; in a table without pairs a whole column is compared.

    Args:
        table: The table.
        side: ``"ours"`` or ``"paper"``.
    """
    places = ((group, column) for group in _groups(table.rows) for column in table.columns)
    return {(row, column) for group, column in places for row in _best(table, group, column, side)}


def _groups(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    pairs = [(row.replace(PREFIX, "", 1), row) for row in rows if PREFIX in row]
    return [pair for pair in pairs if pair[0] in rows] or [rows]


def _best(table: TableResult, rows: tuple[str, ...], column: str, side: str) -> list[str]:
    cells = ((row, table.cell(row, column)) for row in rows)
    larger = larger_is_better(table, column)
    scores: dict[str, Score] = {row: getattr(cell, side) for row, cell in cells if cell and getattr(cell, side)}
    if larger is None or len(scores) < 2:  # a single score is not marked as best
        return []
    # Compared as printed: of two numbers that print alike neither is best.
    shown = {row: round(score.mean, table.digits) for row, score in scores.items()}
    best = max(shown.values()) if larger else min(shown.values())
    return [row for row, value in shown.items() if value == best]
