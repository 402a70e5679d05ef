"""What a table of node scores is worth: rows of scores that need no parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphprism.results import Cell, RunResult, Score

# Names of rows, by what results of runs on nodes carry in ``extra``.
BASELINES = {"lookup": "Look-up", "majority": "Majority class"}
# Points of accuracy within which a look-up makes a score doubtful.
_CLOSE = 10.0


def baseline_rows(cells: Sequence[Cell], results: Mapping[str, RunResult]) -> tuple[Cell, ...]:
    """A cell for each baseline and column that has one: its mean over the splits that were run."""
    found = []
    for column in dict.fromkeys(cell.column for cell in cells):
        runs = [results[key] for cell in cells if cell.column == column for key in cell.runs]
        for name, row in BASELINES.items():
            by_split = {run.run.get("fold", 0): float(run.extra[name]) for run in runs if name in run.extra}
            score = Score.of(list(by_split.values()))
            if score is not None:
                found.append(Cell(row, column, score, note="parameter-free"))
    return tuple(sorted(found, key=lambda cell: list(BASELINES.values()).index(cell.row)))


def doubtful_columns(cells: Sequence[Cell], baselines: Sequence[Cell]) -> list[str]:
    """Columns in which the look-up comes within ten points of a model of ours, or beats it."""
    lookup = {cell.column: cell.ours.mean for cell in baselines if cell.row == BASELINES["lookup"] and cell.ours}
    ours = [(cell.column, cell.ours.mean) for cell in cells if cell.ours and cell.column in lookup]
    return list(dict.fromkeys(column for column, mean in ours if mean - lookup[column] < _CLOSE))
