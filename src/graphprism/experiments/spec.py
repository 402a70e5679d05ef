"""A table of the paper as data: its cells, published numbers and our runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

from graphprism._checks import check_choice
from graphprism._text import suggest
from graphprism.results import ENGINES, RunResult, Score
from graphprism.training import Run

# Called after every epoch with a `graphprism.training.EpochReport`.
OnEpoch: TypeAlias = Callable[[Any], None]

_Read = Callable[[RunResult], float | None]


@dataclass(frozen=True)
class Reading:
    """Which number of a result a table shows, and by which number configurations are compared.

    Attributes:
        value: Returns the number that the table shows.
        choose: Returns the number whose mean over seeds ranks configurations.
        largest: Whether the largest mean is best; None to follow the metric of the result.
        chosen_by: Description of ``choose``.
    """

    value: _Read
    choose: _Read
    largest: bool | None
    chosen_by: str


def _smallest_loss(result: RunResult) -> float | None:
    return result.smallest("train_loss")


def _best_train(result: RunResult) -> float | None:
    scores = [score for score in result.history.get("train", []) if score is not None]
    return (max if result.larger_is_better else min)(scores, default=None)


def _test(result: RunResult) -> float | None:
    return result.at_best("test")


def _validation(result: RunResult) -> float | None:
    return result.at_best("val")


def _step(result: RunResult) -> float | None:
    return result.step_ms


def _extra(name: str) -> _Read:
    """Reads a number from ``extra``, measured after training."""
    return lambda result: result.extra.get(name)


def _log(name: str) -> _Read:
    """The decimal logarithm of such a number; None for zero."""

    def read(result: RunResult) -> float | None:
        value = result.extra.get(name)
        return math.log10(value) if value else None

    return read


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        # at the epoch of best validation
        "test": Reading(_test, _validation, None, "validation score"),
        # the smallest and the best of all epochs
        "train-loss": Reading(_smallest_loss, _smallest_loss, False, "training loss"),
        "train-score": Reading(_best_train, _best_train, None, "training score"),
        # of the states after the last layer, and norms of gradients of these and of the encoding
        "effective-rank": Reading(_extra("effective_rank"), _validation, None, "validation score"),
        "rank-one-distance": Reading(_extra("rank_one_distance"), _validation, None, "validation score"),
        "gradient-last": Reading(_log("gradient_last"), _validation, None, "validation score"),
        "gradient-first": Reading(_log("gradient_first"), _validation, None, "validation score"),
        "step-ms": Reading(_step, _step, False, "time of a step"),
    }
)


GRIDS = ("best", "full")


@dataclass(frozen=True)
class CellSpec:
    """One number of a table.

    Attributes:
        row: Name of the row.
        column: Name of the column.
        paper: The published score; None where there is none.
        best: The run with the published hyper-parameters; None for a number that is only quoted.
        grid: Values that the paper tried, by field of the run; with ``best`` they form the full grid.
        reading: A name of `READINGS`.
        note: Remark below the table.
    """

    row: str
    column: str
    paper: Score | None = None
    best: Run | None = None
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    reading: str = "test"
    note: str = ""

    def __post_init__(self) -> None:
        check_choice("reading", self.reading, READINGS)

    def configurations(self, grid: str = "best") -> list[Run]:
        """The published run (``"best"``), or the whole grid with the published run first (``"full"``)."""
        check_choice("grid", grid, GRIDS)
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
        name: Name in `graphprism reproduce`.
        title: Heading of the table.
        source: Citation of the published numbers and hyper-parameters.
        cells: All cells; rows and columns are in order of first occurrence.
        unit: Unit of the scores.
        larger_is_better: Whether larger scores are better; None where columns differ.
        digits: Decimals to show.
        seeds: Number of runs per configuration in the paper.
        notes: Sentences below the table.
        folds: Number of official folds by data set: repetitions of a run go through the folds first, then through
            seeds. On other data sets they differ in the seed only.
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
    folds: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        places = [(cell.row, cell.column) for cell in self.cells]
        twice = sorted({place for place in places if places.count(place) > 1})
        if twice:
            raise ValueError(f"`cells` must have one cell at each place, got two at {twice}")

    def repeated(self, run: Run, number: int) -> Run:
        """Repetition ``number`` of a run: the next fold if the data set has folds, else the next seed."""
        if run.dataset not in self.folds:
            return replace(run, seed=number)
        seed, fold = divmod(number, self.folds[run.dataset])
        return replace(run, fold=fold, seed=seed)

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of rows, in order."""
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of columns, in order."""
        return tuple(dict.fromkeys(cell.column for cell in self.cells))


@dataclass(frozen=True)
class Settings:
    """Which cells of a table to run, and how.

    Attributes:
        rows: Names of the rows to run, ignoring case; empty for all. Other rows show results that are already in the
            ledger.
        columns: The same for columns.
        seeds: Number of runs per configuration.
        grid: ``"best"`` for the published hyper-parameters, ``"full"`` for the whole published grid.
        epochs: Replaces the published number; the result then has status ``OTHER_PROTOCOL``.
        engine: ``"eager"``, ``"lockstep"`` or ``"auto"``.
        seconds: Time limit of one call; None for none.
    """

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    seeds: int = 3
    grid: str = "best"
    epochs: int | None = None
    engine: str = "auto"
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("grid", GRIDS), ("engine", ENGINES)):
            check_choice(name, getattr(self, name), allowed)
        for name in ("seeds", "epochs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"`{name}` must be at least 1, got {value}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"`seconds` must be above 0, got {self.seconds}")

    def wants(self, row: str, column: str) -> bool:
        """Whether a cell is to be run."""
        return (not self.rows or row in self.rows) and (not self.columns or column in self.columns)

    def spelt_as_in(self, spec: TableSpec) -> Settings:
        """The same with rows and columns spelt as in the table; raises `ValueError` for one that the table lacks."""
        rows, columns = _spelt("rows", self.rows, spec.rows), _spelt("columns", self.columns, spec.columns)
        return replace(self, rows=rows, columns=columns)


def _spelt(name: str, asked: tuple[str, ...], there: tuple[str, ...]) -> tuple[str, ...]:
    spelling = {each.lower(): each for each in there}
    unknown = [each for each in asked if each.lower() not in spelling]
    if unknown:
        close = next(filter(None, (suggest(each, there) for each in unknown)), "")
        raise ValueError(f"`{name}` must be among {', '.join(there)}, got {', '.join(unknown)}{close}")
    return tuple(spelling[each.lower()] for each in asked)
