"""Results of runs and of tables as plain data, and their JSON. Needs no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

# Values of the options ``accelerator`` and ``engine``.
ACCELERATORS = ("auto", "cpu", "cuda")
ENGINES = ("auto", "eager", "lockstep")


@dataclass(frozen=True)
class Score:
    """A mean and its deviation over several runs, ours or a published one.

    Attributes:
        mean: The mean.
        deviation: Standard deviation with ``ddof=1``; None for a single run, or if none was published.
        count: Number of runs, where known.
    """

    mean: float
    deviation: float | None = None
    count: int | None = None

    @classmethod
    def of(cls, values: list[float]) -> Score | None:
        """Mean and deviation of the values; None for an empty list.

        >>> Score.of([1.0, 2.0, 3.0])
        Score(mean=2.0, deviation=1.0, count=3)
        """
        if not values:
            return None
        try:
            mean, deviation = _mean_and_deviation(values)
        except OverflowError:  # runs that diverged: squares, or the sum, overflow
            scale = max(map(abs, values))
            mean, deviation = (scale * each for each in _mean_and_deviation([value / scale for value in values]))
        return cls(mean, None if len(values) == 1 else deviation, len(values))


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


@dataclass(frozen=True)
class RunResult:
    """One finished run: a line of the ledger.

    Attributes:
        key: Identifies the run: equal runs have equal keys.
        run: The whole run, from `graphprism.training.Run.to_dict`.
        status: ``"finished"``, ``"diverged"`` where the loss was not a finite number, or ``"stopped"`` early by
            ``on_epoch``.
        metric: Name of the scores, such as ``"mae"``.
        larger_is_better: Whether larger scores are better.
        history: One list per column with one number per epoch: ``lr``, ``train_loss``, ``train``, ``val``, ``test``
            (scores) and ``seconds``; None where it was not measured.
        best_epoch: Epoch of the best validation score, counted from 1; None without a validation score.
        parameters: Number of trainable parameters.
        width: Channels of a hidden layer.
        step_ms: Median time of a training step, in milliseconds; of a run that shared the device, its share.
        seconds: Time of the run; of a run that shared the device, its share.
        engine: Engine that trained it: one of `ENGINES` except ``"auto"``.
        hardware: ``device``, ``name``, ``count`` and ``runs_at_once``.
        versions: Versions of the packages that can affect results.
        commit: Commit of the source, where known; ends in ``+`` if there were uncommitted changes.
        data: SHA-256 fingerprint of the data set; None where it is unknown.
        finished_at: ISO time in UTC.
        extra: Further numbers, such as the scores of the look-up baseline.
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

    def to_json(self, thin: bool = False) -> str:
        """One line; numbers that are not finite become null.

        Args:
            thin: whether to keep only about a hundred epochs, among them those of the best validation, training score
                and loss, at six digits, without rates and seconds of epochs: enough for tables and plots. Read back,
                the other epochs are None.
        """
        values = asdict(self)
        if thin:
            values["history"] = _thinned(self)
        return json.dumps(finite(values), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> RunResult:
        """Reads `to_json` back; unknown fields of later versions are ignored.

        Raises:
            ValueError: It is no JSON, or a field is missing or not of its type.
        """
        values = parse_json(line)
        if not isinstance(values, dict):
            raise ValueError(f"a line of the ledger must be an object, got {type(values).__name__}")
        if isinstance(values.get("history"), dict) and "epoch" in values["history"]:
            values["history"] = _spread(values["history"])
        result = _checked(cls, values)
        best, lengths = result.best_epoch, [len(values) for values in result.history.values() if values]
        if best is not None and not 1 <= best <= min(lengths, default=best):
            raise ValueError(f"`best_epoch` must be one of the {min(lengths, default=0)} epochs, got {best}")
        return result


# Epochs that a thinned history keeps at most, beside the chosen few: every k-th, k a power of two, so that runs of
# different lengths have epochs in common.
_KEPT_EPOCHS = 128
# Columns that no table and no plot reads: rates follow from the schedule, and the sum of seconds has a field.
_LEFT_OUT = ("lr", "seconds")
# Far more than anyone trains; bounds the memory that a line of a ledger can claim.
_MOST_EPOCHS = 1_000_000


def _thinned(result: RunResult) -> dict[str, list[Any]]:
    """The columns at a subset of epochs, which always has the last; column ``epoch`` holds them, counted from 1."""
    columns = {name: values for name, values in result.history.items() if values and name not in _LEFT_OUT}
    last = max(map(len, columns.values()), default=0)
    step = 1
    while last > step * _KEPT_EPOCHS:
        step *= 2
    chosen = {*range(step, last + 1, step), 1, last, result.best_epoch}
    for name, best in (("train_loss", min), ("train", max if result.larger_is_better else min)):
        known = [(value, at + 1) for at, value in enumerate(columns.get(name, [])) if value is not None]
        chosen |= {best(known)[1]} if known else set()
    epochs = sorted(epoch for epoch in chosen if epoch is not None and 1 <= epoch <= last)
    return {
        "epoch": epochs,
        **{
            name: [None if (value := _at(values, epoch)) is None else float(f"{value:.6g}") for epoch in epochs]
            for name, values in columns.items()
        },
    }


def _at(values: list[float | None], epoch: int) -> float | None:
    return values[epoch - 1] if epoch <= len(values) else None


def _spread(history: dict[str, Any]) -> dict[str, Any]:
    """Inverse of `_thinned`, with None at the dropped epochs."""
    columns = dict(history)
    epochs = columns.pop("epoch")
    if not isinstance(epochs, list) or not all(isinstance(each, int) and 1 <= each <= _MOST_EPOCHS for each in epochs):
        raise ValueError(f"`epoch` must hold whole numbers in [1, {_MOST_EPOCHS}], got {str(epochs)[:80]}")
    for name, values in columns.items():
        if not isinstance(values, list) or len(values) != len(epochs):
            raise ValueError(f"`{name}` must hold a number for each of the {len(epochs)} epochs that were kept")
        columns[name] = spread = [None] * max(epochs, default=0)
        for epoch, value in zip(epochs, values, strict=True):
            spread[epoch - 1] = value
    return columns


def latest(results: Iterable[RunResult]) -> dict[str, RunResult]:
    """The newest result by key, from results in order of age; finished results take precedence over diverged ones."""
    found: dict[str, RunResult] = {}
    for result in results:
        before = found.get(result.key)
        if before is None or result.status == "finished" or before.status != "finished":
            found[result.key] = result
    return found


def training_of(result: RunResult) -> str:
    """A text that copies of the result of one training have in common: its times are those of no other.

    A trial that is resumed reads the result of a training that was over: it is written at another time, by an engine
    with another number of runs, perhaps by another version.
    """
    own = replace(result, finished_at="", engine="", hardware={}, versions={}, commit=None)
    return own.to_json()  # NaN is null in it, as in a ledger


def is_copy(first: RunResult | None, second: RunResult) -> bool:
    """Whether two results are of one training."""
    return first is not None and training_of(first) == training_of(second)


class CellStatus(str, Enum):
    """Origin of our number in a cell, or why there is none."""

    MEASURED = "measured"  # with the published protocol
    OTHER_PROTOCOL = "other-protocol"  # not comparable with the published number
    QUOTED = "quoted"  # published only, never run here
    NOT_RUN = "not-run"
    NO_DATA = "no-data"
    DIVERGED = "diverged"  # all of its runs

    @property
    def label(self) -> str:
        """Text for the notes below a table; may be empty."""
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
        note: Remark beside its status.
        runs: Keys of its runs.
        status: Origin of our number; ``NOT_RUN`` by default for a cell without one.
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

    @property
    def has_no_value(self) -> bool:
        """Whether its runs have finished without a number, such as the rank of states that are all zero."""
        return self.status is CellStatus.NOT_RUN and self.seconds is not None

    @property
    def is_missing(self) -> bool:
        """Whether its runs are still to be done."""
        return self.status is CellStatus.NO_DATA or (self.status is CellStatus.NOT_RUN and self.seconds is None)


@dataclass(frozen=True)
class TableResult:
    """A table of the paper with our numbers in it.

    Attributes:
        name: What `graphprism reproduce` calls it.
        title: In words.
        source: Citation of the published numbers.
        rows: Names of rows, in order.
        columns: Names of columns, in order.
        cells: Those that exist, in any order.
        unit: Such as ``"MAE"``.
        larger_is_better: Whether larger scores are better; None where neither is (numbers of parameters).
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
        """The cell of a row and column; None where the table has none."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def to_json(self) -> str:
        """Indented JSON; numbers that are not finite become null."""
        return json.dumps(finite(asdict(self)), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> TableResult:
        """Reads `to_json` back, also tables written before `CellStatus` existed.

        Raises:
            ValueError: It is no JSON, or a field is missing or not of its type.
        """
        values = parse_json(text)
        check_type("a table", values, dict[str, Any])
        check_type("cells", values.get("cells"), list[Any])
        cells = tuple(_cell(each) for each in values["cells"])
        lists = {key: _tuple(values.get(key)) for key in ("rows", "columns", "notes")}
        return _checked(cls, {**values, **lists, "cells": cells})


def _cell(values: Any) -> Cell:
    check_type("a cell", values, dict[str, Any])
    scores = {key: _score(values.get(key)) for key in ("ours", "paper")}
    note = values.get("note", "")
    check_type("note", note, str)
    if "status" in values:
        status = CellStatus(values["status"])
    else:
        status, note = CellStatus.from_note(note, has_score=scores["ours"] is not None)
    return _checked(Cell, {**values, **scores, "runs": _tuple(values.get("runs")), "status": status, "note": note})


def _score(values: Any) -> Score | None:
    check_type("a score", values, dict[str, Any] | None)
    return None if values is None else _checked(Score, values)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def finite(value: Any) -> Any:
    """Replaces NaN and infinity by None, recursively."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value


# Deeper than any result, far below Python's recursion limit.
_DEEPEST = 20
# Integers from about here on overflow a float.
_LARGEST = 1 << 1000


def parse_json(text: str) -> Any:
    """Parses JSON from an untrusted file.

    Raises:
        ValueError: It is not JSON, is nested too deeply, or holds text that UTF-8 cannot encode.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"JSON must be nested at most {_DEEPEST} deep") from None
    _check_plain(value, _DEEPEST)
    if "\\u" in text:  # raises for a lone surrogate
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _check_plain(value: Any, left: int) -> None:
    """Checks depth and integers; lists of floats, most of a ledger, are checked by the set of their types."""
    if left < 0:
        raise ValueError(f"JSON must be nested at most {_DEEPEST} deep")
    if type(value) is int and abs(value) >= _LARGEST:
        raise ValueError(f"JSON must hold numbers below 1e301, got one of {value.bit_length()} bits")
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not set(map(type, entries)) <= {float, str, bool, NoneType}:
        for each in entries:
            _check_plain(each, left - 1)


def check_type(name: str, value: object, kind: Any) -> None:
    """Raises `ValueError` unless ``value`` is of the type ``kind``; a whole number is a float, a bool is no number.

    >>> check_type("layers", [1, None], list[int | None])
    >>> check_type("layers", "8", int)
    Traceback (most recent call last):
    ...
    ValueError: `layers` must be int, got '8'
    """
    if not _is_of(value, kind):
        wanted = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
        raise ValueError(f"`{name}` must be {wanted}, got {repr(value)[:60]}")


def _is_of(value: object, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is_of(value, each) for each in get_args(kind))
    container, inner = get_origin(kind), get_args(kind)
    if container is dict:
        return isinstance(value, dict) and all(_is_of(each, inner[1]) for each in value.values())
    if container is not None:  # a list, or a tuple of any length, of values without entries
        return isinstance(value, container) and all(_is_type(found, inner[0]) for found in set(map(type, value)))
    return _is_type(type(value), kind)


def _is_type(found: type, kind: Any) -> bool:
    if kind is Any:
        return True
    if isinstance(kind, UnionType):
        return any(_is_type(found, each) for each in get_args(kind))
    if kind in (int, float):
        return found in (int, kind)
    return issubclass(found, kind)


@lru_cache
def field_types(cls: Any) -> dict[str, Any]:
    """Type of each field of a data class, by name."""
    hints = get_type_hints(cls)
    return {each.name: hints[each.name] for each in fields(cls)}


_Data = TypeVar("_Data", bound="RunResult | TableResult | Cell | Score")


def _checked(cls: type[_Data], values: Mapping[str, Any]) -> _Data:
    """An object of a data class; unknown fields are ignored."""
    kinds = field_types(cast("Any", cls))
    known = {name: value for name, value in values.items() if name in kinds}
    for name, value in known.items():
        check_type(name, value, kinds[name])
    for each in fields(cls):
        if each.name not in known and each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"`{each.name}` is missing")
    return cls(**known)
