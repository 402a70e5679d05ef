"""Tables from CSV files of various dialects, and from Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphprism._extras import needs_extra
from graphprism.io.file_graph import GraphFileError, open_file, read_block

Array = npt.NDArray[Any]

# Cells that stand for a missing value.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
_DELIMITERS = ",;\t|"
_PARQUET = b"PAR1"
_BLOCK = 1 << 20
# Longest cell; longer texts are no features, ids or classes.
_LONGEST_CELL = 1 << 17
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


class Columns(Mapping[str, Array]):
    """Columns of equal length by name: whole numbers, floats (NaN if missing), booleans, or text.

    Text is an array of objects, each a string or None if missing.

    Args:
        columns: The columns.
        path: Their file, for error messages.
        written: Columns of numbers and booleans as the file writes them, separated by zeros; not needed where the
            values as text are the same.

    Attributes:
        header_is_guessed: Whether the names come from a first line of text, which may be data.

    >>> table = Columns.of_text(["id", "age", "town"], [["a", "3", "Bonn"], ["b", "", "Ulm"]])
    >>> table["age"].tolist(), table["town"].tolist(), len(table.rows)
    ([3.0, nan], ['Bonn', 'Ulm'], 2)
    """

    def __init__(
        self, columns: Mapping[str, Array], path: Path = Path("table"), written: Mapping[str, bytes] | None = None
    ) -> None:
        self._columns, self.path, self._written = dict(columns), path, dict(written or {})
        self.header_is_guessed = False
        self.rows = range(len(next(iter(self._columns.values()), ())))

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @classmethod
    def of_text(cls, names: Sequence[str], rows: Sequence[Sequence[str]], path: Path = Path("table")) -> Columns:
        """Infers the type of every column."""
        columns, written = {}, {}
        for name, column in zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True):
            cells = [cell.strip() for cell in column]
            typed = columns[name] = _typed(cells)
            if typed.dtype != object and not (typed.dtype.kind == "i" and typed.astype(np.str_).tolist() == cells):
                written[name] = "\0".join(cells).encode()
        return cls(columns, path, written)

    def text(self, name: str) -> Array:
        """A column as text, None where a value is missing: ids, categories.

        It is that of the file, whatever type the other cells make the column, so that 1.1 and 1.10 are two ids; only a
        whole number has no point, since a column with an empty cell is often written as 1.0 and 2.0.

        >>> table = Columns.of_text(["id"], [["1.10"], ["1.1"], ["2.0"], [""]])
        >>> table["id"].tolist(), table.text("id").tolist()
        ([1.1, 1.1, 2.0, nan], ['1.10', '1.1', '2', None])
        """
        if name not in self._written:
            return as_text(self._columns[name])
        cells = self._written[name].decode().split("\0") if len(self.rows) else []
        return _texts(cells)

    def joined(self, other: Columns) -> Columns:
        """Concatenates the rows of both tables; a column that one of them lacks has missing values there.

        A column that is text in one table is text in the result.
        """
        names = list(dict.fromkeys([*self, *other]))
        columns = {name: _joined(self, other, name) for name in names}
        written = {}
        for name in {*self._written, *other._written}:
            texts = [text for table in (self, other) for text in _text_or_blank(table, name)]
            if columns[name].dtype != object:
                written[name] = "\0".join("" if text is None else text for text in texts).encode()
        return Columns(columns, other.path, written)


def read_columns(path: Path) -> Columns:
    r"""Reads a table. A first row of numbers only is not taken as a header: columns are then named 0, 1, ...

    CSV may be separated by commas, semicolons, tabs or bars, quoted, and compressed with gzip; numbers may have a
    decimal comma unless commas are the separator. Parquet is detected by its first bytes.

    Raises:
        GraphFileError: The file cannot be read; a `ValueError` of one sentence, with the line for text files.
        FileNotFoundError: There is no such file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "nodes.csv")
    ...     _ = file.write_text("id;x\na;0.5\n")
    ...     dict(read_columns(file))
    {'id': array(['a'], dtype=object), 'x': array([0.5])}
    """
    with open_file(path) as file:
        start = read_block(path, file, len(_PARQUET), 1)
        if start == _PARQUET:
            return _read_parquet(path)
        parts = [start]
        while block := read_block(path, file, _BLOCK, 1):
            parts.append(block)
    try:
        text = b"".join(parts).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = b"".join(parts)[: error.start].count(b"\n") + 1
        raise GraphFileError(path, "must be text in UTF-8", line) from None
    return _parse(path, text)


def _parse(path: Path, text: str) -> Columns:
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows: list[list[str]] = []
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        for row in reader:
            if row:
                rows.append(row)
                if len(row) != len(rows[0]):
                    must = f"must have {len(rows[0])} cells as the first line"
                    raise GraphFileError(path, f"{must}, got {len(row)}", reader.line_num)
    except csv.Error as error:
        raise GraphFileError(path, f"must be a table of cells ({error})", reader.line_num) from None
    finally:
        csv.field_size_limit(before)
    if not rows:
        raise GraphFileError(path, "is empty")
    if all(map(is_number, rows[0])):
        return Columns.of_text([str(number) for number in range(len(rows[0]))], rows, path)
    if delimiter != ",":
        rows = [rows[0], *_with_points(rows[1:])]
    names = [name.strip() or f"column {number}" for number, name in enumerate(rows[0])]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphFileError(path, f"the column {twice!r} must occur once, got {names.count(twice)}", 1)
    table = Columns.of_text(names, rows[1:], path)
    table.header_is_guessed = True
    return table


_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")


def _with_points(rows: list[list[str]]) -> list[list[str]]:
    """Replaces decimal commas by points in numeric columns, as in tables separated by semicolons."""
    commas = [
        any(_DECIMAL_COMMA.fullmatch(cell) for cell in column)
        and all(_DECIMAL_COMMA.fullmatch(cell) or is_number(cell) or cell.lower() in MISSING for cell in column)
        for column in zip(*rows, strict=True)
    ]
    if not any(commas):
        return rows
    return [[cell.replace(",", ".") if here else cell for cell, here in zip(row, commas, strict=True)] for row in rows]


def is_number(text: str) -> bool:
    """Whether a cell is a number; not 1_000, which Python takes for one."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _typed(column: Sequence[str]) -> Array:
    """The narrowest type of all cells: whole numbers, floats, booleans or text; ids such as 007 and 1_2 stay text."""
    cells = np.array(column, dtype=np.str_)
    if cells.size == 0:
        return np.zeros(0)
    low = np.char.lower(cells)
    missing = np.isin(low, tuple(MISSING))
    present = low[~missing]
    if missing.all():
        return np.full(cells.size, np.nan)
    if np.isin(present, ("true", "false")).all() and not missing.any():
        found: Array = low == "true"
        return found
    padded = np.char.startswith(present, "0") & (np.char.str_len(present) > 1) & np.char.isdigit(present)
    if not padded.any() and not (np.char.find(present, "_") >= 0).any():
        try:
            if not missing.any():
                return cells.astype(np.int64)
        except (ValueError, OverflowError):
            pass
        try:
            numbers = np.full(cells.size, np.nan)
            numbers[~missing] = present.astype(np.float64)
            return numbers
        except ValueError:
            pass
    return _texts(cells.tolist())


_WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")


def _texts(cells: Sequence[str]) -> Array:
    """Cells as text, None if missing, whole numbers without a point."""
    found = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        whole = _WHOLE.fullmatch(cell) if "." in cell else None
        found[row] = whole[1] if whole else None if cell.lower() in MISSING else cell
    return found


def _read_parquet(path: Path) -> Columns:
    with needs_extra("a Parquet file"):
        import pyarrow
        import pyarrow.parquet
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise GraphFileError(path, f"the Parquet file is damaged ({str(error).splitlines()[0]})") from None
    return Columns({str(name): _of_arrow(path, name, table[name]) for name in table.column_names}, path)


def _of_arrow(path: Path, name: str, column: Any) -> Array:
    array: Array = column.to_numpy()
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        return np.array([str(value) for value in array.tolist()], dtype=object)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        return array
    texts = np.array([None if cell is None else _cell(path, name, cell) for cell in column.to_pylist()], dtype=object)
    given = [cell for cell in texts if cell is not None]
    if given and all(isinstance(cell, bool) for cell in given):  # booleans with missing values
        return np.array([np.nan if cell is None else float(cell) for cell in texts])
    return np.array([None if cell is None else str(cell) for cell in texts], dtype=object)


def _cell(path: Path, name: str, cell: object) -> object:
    if isinstance(cell, list | dict):
        raise GraphFileError(path, f"the column {name!r} must hold one value in each row, got {type(cell).__name__}s")
    return cell


def _joined(first: Columns, second: Columns, name: str) -> Array:
    parts = [table.get(name) for table in (first, second)]
    if any(part is not None and part.dtype == object for part in parts):
        return np.concatenate([_text_or_blank(table, name) for table in (first, second)])
    holes = [np.full(len(table.rows), np.nan) for table in (first, second)]
    return np.concatenate([hole if part is None else part for part, hole in zip(parts, holes, strict=True)])


def _text_or_blank(table: Columns, name: str) -> Array:
    return table.text(name) if name in table else np.full(len(table.rows), None, dtype=object)


def stray_text(column: Array) -> tuple[int, str]:
    """Row and text of the first cell of a text column that is no number: it is why the column is text.

    Rows are counted from 1, without the header, as in all messages about tables.

    >>> stray_text(np.array(["1.5", None, "about 2"], dtype=object))
    (3, 'about 2')
    """
    given = [(row, cell) for row, cell in enumerate(column.tolist(), start=1) if cell is not None]
    return next(((row, cell) for row, cell in given if _typed([cell]).dtype == object), (*given, (1, ""))[0])


def as_text(column: Array) -> Array:
    """Every value as text, whole numbers without a point, None if missing; for a column of a table see `Columns.text`.

    >>> as_text(np.array([1.0, 2.5, np.nan])).tolist(), as_text(np.array([7])).tolist()
    (['1', '2.5', None], ['7'])
    """
    if column.dtype == object:
        return column
    if column.dtype.kind in "iub":
        return np.array([str(value) for value in column.tolist()], dtype=object)
    texts = [None if value != value else str(int(value) if value.is_integer() else value) for value in column.tolist()]
    return np.array(texts, dtype=object)
