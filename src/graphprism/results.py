"""Results of runs and of tables as plain data, and their JSON. Needs no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

# What a user may ask for: the kind of device, and the engine that trains.
ACCELERATORS = ("auto", "cpu", "cuda")
ENGINES = ("auto", "eager", "lockstep")


@dataclass(frozen=True)
class Score:
    """A mean and its deviation over several runs, ours or a published one.

    Attributes:
        mean: The mean.
        deviation: Standard deviation with ``ddof=1``; None where there is one run or none was published.
        count: Number of runs behind it, where known.
    """

    mean: float
    deviation: float | None = None
    count: int | None = None

    @classmethod
    def of(cls, values: list[float]) -> Score | None:
        """The score of these runs; None of no runs.

        >>> Score.of([1.0, 2.0, 3.0])
        Score(mean=2.0, deviation=1.0, count=3)
        """
        if not values:
            return None
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, None, 1)
        return cls(mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)), len(values))


@dataclass(frozen=True)
class RunResult:
    """One finished run: a line of the ledger.

    Attributes:
        key: Identifies the run: equal runs have equal keys.
        run: The whole run, from `graphprism.training.Run.to_dict`.
        status: ``"finished"``, or ``"diverged"`` where the loss was not a finite number.
        metric: Name of the scores, such as ``"mae"``.
        larger_is_better: Of the scores.
        history: One list per column with one number per epoch: ``lr``, ``train_loss``, ``train``, ``val``, ``test``
            (scores) and ``seconds``. A number that was not taken is None.
        best_epoch: Epoch of the best validation score, counted from 1; None where there is none.
        parameters: Number of parameters that are trained.
        width: Channels of a hidden layer.
        step_ms: Median time of a training step, in milliseconds; of a run that shared the device, its share.
        seconds: Time of the run; of a run that shared the device, its share.
        engine: What ran it: one of `ENGINES` but ``"auto"``.
        hardware: What it ran on: ``device``, ``name``, ``count``, ``runs_at_once``.
        versions: Versions of the packages that can affect results.
        commit: Commit of the source, where known; ends in ``+`` where it was changed since.
        data: SHA-256 fingerprint of the data set; None where it is unknown.
        finished_at: ISO time in UTC.
        extra: Anything else worth keeping, such as the scores of a look-up without parameters.
    """

    key: str
    run: dict[str, Any]
    status: str
    metric: str
    larger_is_better: bool
    history: dict[str, list[float | None]]
    best_epoch: int | None
    parameters: int
    width: int
    step_ms: float | None
    seconds: float
    engine: str
    hardware: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    data: str | None = None
    finished_at: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def at_best(self, column: str) -> float | None:
        """A column at the epoch of best validation: ``at_best("test")`` is the test score of a table."""
        values = self.history.get(column)
        return None if self.best_epoch is None or not values else values[self.best_epoch - 1]

    def smallest(self, column: str) -> float | None:
        """The smallest number of a column: ``smallest("train_loss")`` is the training loss of a table."""
        values = [value for value in self.history.get(column, []) if value is not None]
        return min(values, default=None)

    def to_json(self) -> str:
        """One line; numbers that are not finite become null."""
        return json.dumps(finite(asdict(self)), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> RunResult:
        """Reads `to_json` back; columns of a later version are left out."""
        values = json.loads(line)
        if not isinstance(values, dict):
            raise ValueError(f"a line of the ledger must be an object, got {type(values).__name__}")
        known = {each.name for each in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


def latest(results: Iterable[RunResult]) -> dict[str, RunResult]:
    """The newest result of every run by its key, given the oldest first; a finished one before one that diverged."""
    found: dict[str, RunResult] = {}
    for result in results:
        before = found.get(result.key)
        if before is None or result.status == "finished" or before.status != "finished":
            found[result.key] = result
    return found


class CellStatus(str, Enum):
    """Where the number of a cell comes from, or why there is none of ours."""

    MEASURED = "measured"  # by the published protocol
    OTHER_PROTOCOL = "other-protocol"  # the gap says nothing about the published number
    QUOTED = "quoted"  # never run here
    NOT_RUN = "not-run"
    NO_DATA = "no-data"
    DIVERGED = "diverged"  # all of its runs

    @property
    def label(self) -> str:
        """For the notes below a table; empty where there is nothing to say."""
        return _STATUS_LABELS[self]

    @classmethod
    def from_note(cls, note: str, has_score: bool) -> tuple[CellStatus, str]:
        """Status and remaining note of a table written before cells had a status.

        >>> CellStatus.from_note("quoted; no data; nine maps", has_score=False)
        (<CellStatus.NO_DATA: 'no-data'>, 'nine maps')
        """
        other = _STATUS_LABELS[cls.OTHER_PROTOCOL]
        parts = [part for part in note.split("; ") if part]
        if has_score:
            status = cls.OTHER_PROTOCOL if any(part.startswith(other) for part in parts) else cls.MEASURED
        else:
            found = {"not run": cls.NOT_RUN, "no data": cls.NO_DATA}
            status = next((found[part] for part in parts if part in found), cls.QUOTED)
            status = cls.DIVERGED if "diverged" in note else status
        rest = (part.removeprefix(f"{other}: ") for part in parts if part not in ("quoted", "not run", "no data"))
        return status, "; ".join(rest)


_STATUS_LABELS = {
    CellStatus.MEASURED: "",
    CellStatus.OTHER_PROTOCOL: "not the published protocol",
    CellStatus.QUOTED: "quoted",
    CellStatus.NOT_RUN: "quoted; not run",
    CellStatus.NO_DATA: "quoted; no data",
    CellStatus.DIVERGED: "quoted",
}


@dataclass(frozen=True)
class Cell:
    """One number of a table: ours beside the published one.

    Attributes:
        row: Name of the row.
        column: Name of the column.
        ours: Our score; None where nothing has run.
        paper: The published score, quoted; None where there is none.
        seconds: Time of all runs behind ours.
        note: What to know about it beside its status.
        runs: Keys of the runs behind it.
        status: Where its number comes from; a cell without ours is not run unless it says why.
    """

    row: str
    column: str
    ours: Score | None = None
    paper: Score | None = None
    seconds: float | None = None
    note: str = ""
    runs: tuple[str, ...] = ()
    status: CellStatus = CellStatus.MEASURED

    def __post_init__(self) -> None:
        if self.ours is None and self.status is CellStatus.MEASURED:
            object.__setattr__(self, "status", CellStatus.NOT_RUN)

    @property
    def gap(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean


@dataclass(frozen=True)
class TableResult:
    """A table of the paper with our numbers in it.

    Attributes:
        name: What `graphprism reproduce` calls it.
        title: In words.
        source: Where the published numbers stand.
        rows: Names of rows, in order.
        columns: Names of columns, in order.
        cells: Those that exist, in any order.
        unit: Such as ``"MAE"``.
        larger_is_better: Of the scores; None where neither is (numbers of parameters).
        digits: How many digits after the point to show.
        notes: Sentences below the table.
    """

    name: str
    title: str
    source: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    unit: str = ""
    larger_is_better: bool | None = False
    digits: int = 3
    notes: tuple[str, ...] = ()

    def cell(self, row: str, column: str) -> Cell | None:
        """The cell at a place; None where the table has none."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def to_json(self) -> str:
        """Indented JSON; numbers that are not finite become null."""
        return json.dumps(finite(asdict(self)), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> TableResult:
        """Reads `to_json` back; tables from before `CellStatus` as well."""
        values = json.loads(text)
        cells = tuple(_cell(each) for each in values["cells"])
        lists = {key: tuple(values[key]) for key in ("rows", "columns", "notes")}
        return cls(**{**values, **lists, "cells": cells})


def _cell(values: Mapping[str, Any]) -> Cell:
    scores = {key: None if values[key] is None else Score(**values[key]) for key in ("ours", "paper")}
    if "status" in values:
        status, note = CellStatus(values["status"]), values["note"]
    else:
        status, note = CellStatus.from_note(values["note"], has_score=values["ours"] is not None)
    return Cell(**{**values, **scores, "runs": tuple(values["runs"]), "status": status, "note": note})


def finite(value: Any) -> Any:
    """The same with None in place of NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value
