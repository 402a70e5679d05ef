"""Encoding of table columns as numbers: fitted once, stored with the data and every checkpoint, reused for new data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from graphprism._text import counted
from graphprism.io.columns import Columns, as_text, stray_text

Array = npt.NDArray[Any]

KINDS = ("number", "flag", "category")


@dataclass(frozen=True)
class ColumnCode:
    """Encoding of one column as features.

    Attributes:
        name: Name of the column.
        kind: ``"number"``: standardised by ``mean`` and ``scale``; missing values become the mean. ``"flag"``: 0 or 1;
            missing values become 0. ``"category"``: one of ``values``; anything else is *other*.
        mean: Mean of the training rows.
        scale: Their standard deviation, or 1 if that is 0.
        values: Values of a category, as text.

    >>> age = ColumnCode.fit("age", np.array([1.0, 3.0, np.nan]), np.array([True, True, False]))
    >>> age.encode(np.array([3.0, np.nan]))
    array([[1.],
           [0.]])
    """

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()

    @classmethod
    def fit(cls, name: str, column: Array, rows: Array, category: bool = False) -> ColumnCode:
        """Fits kind, mean and scale to the training ``rows``, and categories to all rows."""
        if category or column.dtype == object:
            values = sorted({text for text in as_text(column) if text is not None}, key=_natural)
            return cls(name, "category", values=tuple(values))
        given = column[~np.isnan(column)] if column.dtype.kind == "f" else column
        if np.isin(given, (0, 1)).all():
            return cls(name, "flag")
        seen = column[rows].astype(np.float64)
        seen = seen[np.isfinite(seen)] if np.isfinite(seen).any() else given[np.isfinite(given)].astype(np.float64)
        scale = float(seen.std()) if seen.size else 0.0
        return cls(name, "number", float(seen.mean()) if seen.size else 0.0, scale if scale > 0 else 1.0)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.values) if self.kind == "category" else 1

    def of(self, table: Columns) -> Array:
        """The column of a table, a category as text.

        Raises:
            ValueError: The table lacks it.
        """
        return wanted_texts(table, [self.name])[0] if self.kind == "category" else wanted_columns(table, [self.name])[0]

    def codes(self, column: Array) -> Array:
        """Index of each value's category, (R,); *other* is the last index."""
        number = {value: index for index, value in enumerate(self.values)}
        return np.array([number.get(text, len(number)) for text in as_text(column)], np.int64)

    def encode(self, column: Array, file: str | PathLike[str] = "table") -> Array:
        """Features, (R,) -> (R, width); categories are one-hot, *other* is all zeros.

        Raises:
            ValueError: A column of numbers has a text; the message names ``file``, column, row and text.
        """
        if self.kind == "category":
            return np.eye(len(self.values) + 1)[self.codes(column)][:, :-1]
        if column.dtype == object and {str(cell).lower() for cell in column if cell is not None} <= {"true", "false"}:
            # flags, of which some are missing
            column = np.array([np.nan if cell is None else str(cell).lower() == "true" for cell in column])
        if column.dtype == object:
            row, text = stray_text(column)
            raise ValueError(f"{fspath(file)}: the column {self.name!r} must hold numbers, got {text!r} in row {row}")
        numbers = column.astype(np.float64)
        numbers = np.where(np.isfinite(numbers), numbers, self.mean)
        return ((numbers - self.mean) / self.scale)[:, None]

    def notices(self, column: Array, file: str) -> list[str]:
        """Sentences about missing values of a column of ``file``, and about categories that it was not fitted to."""
        found = []
        if self.kind == "category":
            known = set(self.values)
            new = sorted({text for text in as_text(column) if text is not None and text not in known}, key=_natural)
            if new:
                shown = ", ".join(map(repr, new[:3])) + (", ..." if len(new) > 3 else "")
                taken = "a missing one" if len(new) == 1 else "missing ones"
                values = f"{counted(new, 'value')} that training did not, {shown}: taken as {taken}"
                found.append(f"{file}: column {self.name!r} has {values}.")
        if missing := _count_missing(column):
            filled = {"number": "the mean", "flag": "0", "category": "a value of its own"}[self.kind]
            found.append(f"{file}: column {self.name!r} lacks {counted(missing, 'value')}: {filled} instead.")
        return found


def _count_missing(column: Array) -> int:
    if column.dtype == object:
        return sum(cell is None for cell in column)
    return int((~np.isfinite(column)).sum()) if column.dtype.kind == "f" else 0


def _natural(text: str) -> tuple[int, float, str]:
    """Sort key: numbers by value, before words."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


# One number, or one for each of several targets.
PerTarget = float | tuple[float, ...]


@dataclass(frozen=True)
class Preprocessing:
    """Encoding of tables of nodes, edges and graphs as the tensors of a data set.

    Attributes:
        level: ``"graph"``, ``"node"`` or ``"link"``.
        names: Columns by role: ``id`` and ``graph`` of nodes, ``source``, ``destination`` and ``edge_graph`` of
            edges, ``graph_id`` of graphs; an empty name where there is none. ``weight`` of edges only where they have
            weights. No roles where tensors were given.
        nodes: Columns of nodes that are features.
        edges: Columns of edges that are features.
        node_types: Whether columns of nodes are types, which a network embeds, instead of features.
        directed: Whether edges are directed; otherwise reverse edges are added.
        targets: Columns of the target.
        classes: Names of the classes of a binary or multi-class target.
        target_mean: Mean that was subtracted from a numeric target; of several targets one of each.
        target_scale: Deviation that it was then divided by.
        notices: Sentences about what was left out, imputed or drawn.
        files: Names of the files of ``nodes``, ``edges`` and ``graphs``: new folders are searched for them first.
    """

    level: str
    names: dict[str, str]
    nodes: tuple[ColumnCode, ...] = ()
    edges: tuple[ColumnCode, ...] = ()
    node_types: bool = False
    directed: bool = False
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    target_mean: PerTarget = 0.0
    target_scale: PerTarget = 1.0
    notices: tuple[str, ...] = field(default=())
    files: dict[str, str] = field(default_factory=dict)

    @property
    def is_of_tables(self) -> bool:
        """Whether it encodes tables; otherwise it holds the scale of a target alone."""
        return bool(self.names)

    def in_own_unit(self, target: Tensor) -> Tensor:
        """Scaled targets, (R, T), in the unit that they had."""
        return target * target.new_tensor(self.target_scale) + target.new_tensor(self.target_mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Reads `to_dict` back.

        Raises:
            ValueError: These are not such values.
        """
        try:
            known = dict(values)
            for part in ("nodes", "edges"):
                known[part] = tuple(ColumnCode(**{**each, "values": tuple(each["values"])}) for each in known[part])
            for part in ("targets", "classes", "notices"):
                known[part] = tuple(known[part])
            for part in ("target_mean", "target_scale"):
                if isinstance(known.get(part), list):
                    known[part] = tuple(known[part])
            known["files"] = dict(known.get("files", {}))  # sets from before names of files were kept have none
            return cls(**known)
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"the preprocessing of a data set must be as it was packed, got {error}") from None

    def node_input(self, table: Columns | None, count: int) -> Array:
        """Features or types of nodes, (N, F); without columns, a constant 1."""
        if not self.nodes or table is None:
            return np.ones((count, 1), np.float32)
        columns = [code.of(table) for code in self.nodes]
        if self.node_types:
            return np.stack([code.codes(column) for code, column in zip(self.nodes, columns, strict=True)], 1)
        parts = [code.encode(column, table.path) for code, column in zip(self.nodes, columns, strict=True)]
        return np.concatenate(parts, 1).astype(np.float32)

    def notices_of(self, nodes: Columns | None, edges: Columns, but: Collection[str] = ()) -> tuple[str, ...]:
        """Sentences about new tables: what is missing, and categories that training did not have.

        Args:
            nodes: The table of nodes, if any.
            edges: The table of edges.
            but: Columns of edges to say nothing about.
        """
        parts = ((self.nodes, nodes), (tuple(code for code in self.edges if code.name not in but), edges))
        found = [(code, table) for codes, table in parts if table is not None for code in codes if code.name in table]
        return tuple(line for code, table in found for line in code.notices(code.of(table), table.path.name))

    def edge_input(self, table: Columns) -> Array | None:
        """Types of edges if all columns are categories, else features, (E, D); None without columns."""
        if not self.edges:
            return None
        columns = [code.of(table) for code in self.edges]
        if all(code.kind == "category" for code in self.edges):
            return np.stack([code.codes(column) for code, column in zip(self.edges, columns, strict=True)], 1)
        parts = [code.encode(column, table.path) for code, column in zip(self.edges, columns, strict=True)]
        return np.concatenate(parts, 1).astype(np.float32)

    def edge_weight(self, table: Columns) -> Array | None:
        """Weights of edges, (E,); None without such a column.

        Raises:
            ValueError: A weight is missing, or is no finite number in float32.
        """
        if not (name := self.names.get("weight", "")):
            return None
        (column,) = wanted_columns(table, [name])
        must = f"{table.path}: the column {name!r} must hold the weight of every edge"
        if column.dtype == object:
            row, text = stray_text(column)
            raise ValueError(f"{must}, got {text!r} in row {row}")
        numbers = column.astype(np.float64)
        refused = np.flatnonzero(~(np.abs(numbers) <= np.finfo(np.float32).max))  # NaN, too
        if refused.size:
            came = "none" if np.isnan(number := numbers[refused[0]]) else f"{number:g}"
            ways = f"correct the table, or import the data with --drop {name}, without weights"
            raise ValueError(f"{must}, got {came} in row {refused[0] + 1}; {ways}")
        return column.astype(np.float32)

    @property
    def num_node_types(self) -> tuple[int, ...]:
        """Number of types of each column of nodes, *other* included; empty for features."""
        return tuple(code.width + 1 for code in self.nodes) if self.node_types else ()

    @property
    def num_edge_types(self) -> tuple[int, ...]:
        """Number of types of each column of edges, *other* included; empty for features."""
        types = all(code.kind == "category" for code in self.edges)
        return tuple(code.width + 1 for code in self.edges) if types else ()


def wanted_columns(table: Columns, names: Sequence[str]) -> list[Array]:
    """Columns by name.

    Raises:
        ValueError: A column is missing; the message lists the present ones.
    """
    for name in names:
        if name not in table:
            there = ", ".join(map(repr, list(table)[:12])) + (", ..." if len(table) > 12 else "")
            raise ValueError(f"{table.path}: must have the column {name!r}, got {there}")
    return [table[name] for name in names]


def wanted_texts(table: Columns, names: Sequence[str]) -> list[Array]:
    """Columns by name as text; raises as `wanted_columns`."""
    wanted_columns(table, names)
    return [table.text(name) for name in names]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
