"""Which numbers of a table are the best of their pair."""

from __future__ import annotations

from graphprism.report.direction import larger_is_better
from graphprism.results import Score, TableResult

PREFIX = "MRS-"


def best_cells(table: TableResult, side: str) -> set[tuple[str, str]]:
    """Places of the best scores, as (row, column).

    A model and its partner with split edges are a pair; in a table without pairs a whole column is compared.

    Args:
        table: With the scores.
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
    if larger is None or len(scores) < 2:  # alone it is no best
        return []
    # Compared as printed, so that of two numbers that look alike none is said to be better.
    shown = {row: round(score.mean, table.digits) for row, score in scores.items()}
    best = max(shown.values()) if larger else min(shown.values())
    return [row for row, value in shown.items() if value == best]
