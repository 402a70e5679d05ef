"""What a cell of a table says about our number beside the published one."""

from __future__ import annotations

from enum import Enum

from graphprism.report.direction import larger_is_better
from graphprism.results import Cell, TableResult

# Part of the note of a cell whose runs were shortened: its gap says nothing about the paper.
OTHER = "not the published protocol"


class Verdict(Enum):
    """A sign and a word each, so that colour is never alone in telling them apart."""

    BETTER = ("▲", "better")
    WITHIN = ("≈", "within")
    WORSE = ("▼", "worse")
    DIFFERS = ("≠", "differs")
    OTHER_PROTOCOL = ("∗", "other protocol")
    OURS_ALONE = ("○", "ours alone")
    NOT_RUN = ("–", "not run")

    def __init__(self, sign: str, word: str) -> None:
        self.sign = sign
        self.word = word

    @property
    def css(self) -> str:
        """Its class in the style sheet."""
        return self.word.replace(" ", "-")


def verdict(cell: Cell, table: TableResult) -> Verdict:
    """Compares with the published deviation, plus half a unit of the last printed digit."""
    if cell.ours is None:
        return Verdict.NOT_RUN
    gap = cell.gap
    if cell.paper is None or gap is None:
        return Verdict.OURS_ALONE
    if OTHER in cell.note:
        return Verdict.OTHER_PROTOCOL
    # Published numbers are rounded: what prints alike is no difference, also where the deviation prints as 0.
    within = (cell.paper.deviation or 0.0) + 0.5 * 10**-table.digits
    if abs(gap) <= within * (1 + 1e-9):
        return Verdict.WITHIN
    larger = larger_is_better(table, cell.column)
    if larger is None:
        return Verdict.DIFFERS
    return Verdict.BETTER if (gap > 0) == larger else Verdict.WORSE
