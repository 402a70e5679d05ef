"""Tables of benchmarks/README.md that are not in PAPER.md, from the stored ledgers.

Paired differences of FaberNet's ingredients, fold by fold; remedies on Cora and ZINC12k with the rank of their last
states; and the correlation of that rank with the score.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from statistics import correlation, fmean, stdev

from graphprism._text import score_text
from graphprism.experiments import Settings
from graphprism.experiments.plan import plan
from graphprism.experiments.spec import READINGS
from graphprism.experiments.stored import read_ledgers, stored_tables
from graphprism.experiments.tables import FABER
from graphprism.experiments.tables.remedies import LAYERS
from graphprism.report.comparison import student
from graphprism.results import Score, TableResult, latest

RESULTS = Path(__file__).parent / "results"
RANKS = ("effective rank", "rank-one distance")
CORA, ZINC = "remedies-cora", "remedies-zinc12k"
LEARNS = 0.7


def ingredients() -> None:
    """Difference of each row from the first: mean over ten folds and its 95 % interval."""
    results, value = latest(read_ledgers(RESULTS)), READINGS["test"].value
    scores = {
        (cell.spec.row, cell.spec.column): [value(results[run.key]) for run in cell.configurations[0]]
        for cell in plan(FABER, Settings(seeds=FABER.seeds))
        if all(run.key in results for run in cell.configurations[0])
    }
    first = FABER.rows[0]
    print(f"| against {first} | {' | '.join(FABER.columns)} |\n|{'---|' * (1 + len(FABER.columns))}")
    for row in FABER.rows[1:]:
        parts = []
        for column in FABER.columns:
            apart = [a - b for a, b in zip(scores[row, column], scores[first, column], strict=True)]
            half = student(len(apart) - 1) * stdev(apart) / math.sqrt(len(apart))
            parts.append(f"{fmean(apart):+.1f} [{fmean(apart) - half:+.1f}, {fmean(apart) + half:+.1f}]")
        print(f"| {row} | {' | '.join(parts)} |")


def remedies(table: TableResult) -> None:
    """Score, effective rank and rank-one distance by number of layers."""
    print(f"\n| remedy | {' | '.join(f'{layers} layers' for layers in LAYERS)} |\n|{'---|' * (1 + len(LAYERS))}")
    for name in dict.fromkeys(row.rpartition(" ")[0] for row in table.rows if row.rpartition(" ")[2].isdigit()):
        print(f"| {name} | {' | '.join(_remedy(table, f'{name} {layers}') for layers in LAYERS)} |")


def _remedy(table: TableResult, row: str) -> str:
    score, *ranks = (_score(table, row, column) for column in ("score", *RANKS))
    if score is None:
        cell = table.cell(row, "score")
        return "" if cell is None else cell.status.value.replace("-", " ")
    rank, distance = ("-" if each is None else f"{each.mean:.{d}f}" for each, d in zip(ranks, (1, 2), strict=True))
    digits = 3 if table.name == ZINC else 1
    return f"{score_text(score.mean, score.deviation or 0, digits)}; {rank}, {distance}"


def _score(table: TableResult, row: str, column: str) -> Score | None:
    cell = table.cell(row, column)
    return None if cell is None else cell.ours


def correlations(table: TableResult) -> None:
    """Spearman's correlation of score and rank over cells: all, without JK, and those of networks that train.

    The head of JK reads all layers, not only the last one, whose rank is measured. Errors count negative, so that a
    positive correlation says that a higher rank goes with a better score. No network fits all molecules: there it
    is those whose training error is half of that of a constant, 1.41, or less.
    """
    rows = [row for row in table.rows if _score(table, row, "score") and _score(table, row, "train")]
    groups = {
        "all cells": rows,
        "without JK": [row for row in rows if not row.startswith("JK ")],
    }
    if table.name == ZINC:
        groups["that learn"] = [row for row in rows if _score(table, row, "train").mean < LEARNS]
    else:
        groups["that fit the training nodes"] = [row for row in rows if _score(table, row, "train").mean > 95]
    sign = -1 if table.name == ZINC else 1
    print(f"\n| Spearman, score and | {' | '.join(groups)} |\n|{'---|' * (1 + len(groups))}")
    for column in RANKS:
        parts = []
        for chosen in groups.values():
            found = [(_score(table, row, "score"), _score(table, row, column)) for row in chosen]
            parts.append(_interval([(sign * score.mean, other.mean) for score, other in found if other is not None]))
        print(f"| {column} | {' | '.join(parts)} |")


def _interval(pairs: list[tuple[float, float]], draws: int = 2000) -> str:
    """The correlation and its 95 % bootstrap interval."""
    draw = random.Random(0)
    found = sorted(_spearman(draw.choices(pairs, k=len(pairs))) for _ in range(draws))
    return f"{_spearman(pairs):+.2f} [{found[draws // 40]:+.2f}, {found[-draws // 40]:+.2f}]; {len(pairs)}"


def _spearman(pairs: list[tuple[float, float]]) -> float:
    return correlation(*(_places(values) for values in zip(*pairs, strict=True)))


def _places(values: tuple[float, ...]) -> list[float]:
    """The place of every value in order, ties at their mean."""
    return [sum(other < value for other in values) + values.count(value) / 2 for value in values]


if __name__ == "__main__":
    ingredients()
    tables = {table.name: table for table in stored_tables(RESULTS)[0]}
    for name in (CORA, ZINC):
        remedies(tables[name])
        correlations(tables[name])
