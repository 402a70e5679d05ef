"""A table of the paper as data: its cells, the published numbers and the runs that give ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from graphprism.datasets import PackedDataset
from graphprism.experiments.any_run import AnyRun, ManyTrainer, OnEpoch, Trainer
from graphprism.experiments.readings import READINGS
from graphprism.results import RunResult, Score

GRIDS = ("best", "full")


def with_seed(run: AnyRun, number: int) -> AnyRun:
    """The same run with another seed."""
    return replace(run, seed=number)


def train_eagerly(run: AnyRun, dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> RunResult:
    """Trains a `graphprism.training.Run` on its own."""
    from graphprism.training import Run, train

    if not isinstance(run, Run):
        raise TypeError(f"`run` must be a graphprism.training.Run, got {type(run).__name__}")
    return train(run, dataset, folder=folder, on_epoch=on_epoch)


@dataclass(frozen=True)
class CellSpec:
    """One number of a table.

    Attributes:
        row: Name of the row.
        column: Name of the column.
        paper: The published score; None where there is none.
        best: The run with the published hyper-parameters; None for a number that is only quoted.
        grid: Values of fields of the run that the paper tried; together with ``best`` they are the full grid.
        reading: A name of `READINGS`.
        note: What to know about it.
    """

    row: str
    column: str
    paper: Score | None = None
    best: AnyRun | None = None
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reading: str = "test"
    note: str = ""

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise ValueError(f"`reading` must be one of {list(READINGS)}, got {self.reading!r}")

    def configurations(self, grid: str = "best") -> list[AnyRun]:
        """The published run alone (``"best"``), or first and before all others of the grid (``"full"``)."""
        if grid not in GRIDS:
            raise ValueError(f"`grid` must be one of {list(GRIDS)}, got {grid!r}")
        if self.best is None:
            return []
        if grid == "best":
            return [self.best]
        tried = [
            replace(self.best, **dict(zip(self.grid, values, strict=True))) for values in product(*self.grid.values())
        ]
        return [self.best, *(run for run in tried if run.key != self.best.key)]


@dataclass(frozen=True)
class TableSpec:
    """A table of the paper.

    Attributes:
        name: What `graphprism reproduce` calls it.
        title: In words.
        source: Where the published numbers and hyper-parameters stand.
        cells: All cells; rows and columns are in the order in which they first occur.
        unit: Of the scores.
        larger_is_better: Of the scores; None where columns differ.
        digits: How many digits after the point to show.
        seeds: How many runs of each configuration the paper took the mean of.
        notes: Sentences below the table.
        repeat: The run that is number ``n`` of a configuration.
        train: Trains one run.
        train_many: Trains several runs at once that differ in the fields ``own`` alone; where it is None, runs on
            graphs go in lockstep if the engine says so.
        own: See ``train_many``.
    """

    name: str
    title: str
    source: str
    cells: tuple[CellSpec, ...]
    unit: str = ""
    larger_is_better: bool | None = False
    digits: int = 3
    seeds: int = 3
    notes: tuple[str, ...] = ()
    repeat: Callable[[AnyRun, int], AnyRun] = with_seed
    train: Trainer = train_eagerly
    train_many: ManyTrainer | None = None
    own: tuple[str, ...] = ("seed", "lr", "weight_decay", "dropout")

    def __post_init__(self) -> None:
        places = [(cell.row, cell.column) for cell in self.cells]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            raise ValueError(f"`cells` must have one cell at each place, got two at {twice}")

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of rows, in order."""
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of columns, in order."""
        return tuple(dict.fromkeys(cell.column for cell in self.cells))
