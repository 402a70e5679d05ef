"""Edge lists: a line per edge, with source, target and possibly a weight."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from graphprism.io.columns import is_number
from graphprism.io.file_graph import FileGraph, GraphFileError, open_file, read_block

_BLOCK_BYTES = 16 << 20
_LONGEST_LINE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATORS = bytes.maketrans(b",;\t\x0b\x0c", b"     ")
_COMMENT = re.compile(rb"^[ \t]*[#%][^\n]*", re.MULTILINE)
_EMPTY_CELL = re.compile(rb"[,;][ \t]*(?=[,;\n]|\Z)|^[ \t]*[,;]", re.MULTILINE)


class Block(NamedTuple):
    """Complete lines with cells separated by spaces; comments and the header are blanked."""

    text: bytes
    first_line: int
    num_lines: int  # that hold cells
    columns: int


def blocks(path: Path) -> Iterator[Block]:
    """Reads ``path`` block by block and checks that every line has as many cells as the first, two or three."""
    columns, is_first = 0, True
    for raw, first_line in raw_blocks(path):
        cleaned = blank_comments(raw)
        _check_no_empty_cell(path, cleaned, first_line)
        text = cleaned.translate(_SEPARATORS)
        if is_first:
            text = _blank_header(text)
        counts = _cells_per_line(text)
        lines = np.flatnonzero(counts)
        if lines.size == 0:
            continue
        is_first, columns = False, columns or int(counts[lines[0]])
        ragged = lines[counts[lines] != columns] if columns in (2, 3) else lines[:1]
        if ragged.size:
            raise _ragged(path, first_line + int(ragged[0]), int(counts[ragged[0]]), columns)
        yield Block(text, first_line, int(lines.size), columns)


def raw_blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Blocks of complete lines, each ending in LF, with the number of their first line."""
    line, rest = 1, b""
    with open_file(path) as file:
        while block := read_block(path, file, _BLOCK_BYTES, line):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            whole = whole.removeprefix(_BYTE_ORDER_MARK) if line == 1 else whole
            if len(rest) > _LONGEST_LINE:
                raise GraphFileError(path, f"the line is longer than {_LONGEST_LINE} characters", line)
            if newline:
                yield _unix_lines(path, whole + newline, line), line
            line += whole.count(b"\n") + len(newline)
        if rest:
            rest = rest.removeprefix(_BYTE_ORDER_MARK) if line == 1 else rest
            yield _unix_lines(path, rest, line), line
            _warn_if_cut(path, file, line)  # reached only if that line could be read


def blank_comments(block: bytes) -> bytes:
    """The block with lines that start with # or % blanked, so that line numbers stay the same."""
    return _COMMENT.sub(b"", block) if b"#" in block or b"%" in block else block


def _unix_lines(path: Path, block: bytes, first_line: int) -> bytes:
    """The block with LF for CRLF; raises for a CR elsewhere, which is ambiguous, and deleting it would join numbers."""
    if b"\r" not in block:
        return block
    block = block.replace(b"\r\n", b"\n")
    if (place := block.find(b"\r")) >= 0:
        line = first_line + block.count(b"\n", 0, place)
        raise GraphFileError(path, "lines must end in LF or CRLF, got a carriage return (CR) alone", line)
    return block


def _warn_if_cut(path: Path, file: BinaryIO, line: int) -> None:
    # Only for large files: small ones are often written by hand and end without a line break.
    if file.tell() > _BLOCK_BYTES:
        warnings.warn(
            f"{path}, line {line}: the last line does not end in a line break; the file may be truncated",
            stacklevel=2,
        )


def _check_no_empty_cell(path: Path, block: bytes, first_line: int) -> None:
    if (b"," in block or b";" in block) and (empty := _EMPTY_CELL.search(block)):
        raise GraphFileError(path, "a cell is empty", first_line + block.count(b"\n", 0, empty.start()))


def _blank_header(text: bytes) -> bytes:
    """Blanks the first nonempty line if neither of its first two cells looks like a number."""
    start = len(text) - len(text.lstrip())
    end = text.find(b"\n", start)
    line = text[start : len(text) if end < 0 else end]
    cells = line.split()
    return text[:start] + b" " * len(line) + text[start + len(line) :] if _are_names(cells) and end >= 0 else text


def _are_names(cells: list[bytes]) -> bool:
    """Whether a first line holds names of columns."""
    return len(cells) in (2, 3) and not any(_has_digit_first(cell) for cell in cells[:2])


def _has_digit_first(cell: bytes) -> bool:
    return cell.lstrip(b"+-.")[:1].isdigit()


def _cells_per_line(text: bytes) -> npt.NDArray[np.int64]:
    """Number of cells on each line, (lines,)."""
    codes = np.frombuffer(text, np.uint8)
    separator = codes <= 32
    separators = codes[separator]
    regular = codes.size and not separator[0] and separator[-1] and not (separator[1:] & separator[:-1]).any()
    newlines = np.flatnonzero(separators == 10)
    if regular:  # cells and separators alternate: a line has as many cells as separators
        return np.diff(newlines, prepend=-1)
    starts = ~separator
    starts[1:] &= separator[:-1]
    ends = np.append(np.flatnonzero(codes == 10), codes.size)
    counts: npt.NDArray[np.int64] = np.diff(np.concatenate([[0], np.cumsum(starts)])[ends], prepend=0)
    return counts


def _ragged(path: Path, line: int, cells: int, columns: int) -> GraphFileError:
    if columns not in (2, 3):
        more = "`graphprism data import FOLDER` takes tables of edges"
        must = f"a line must hold source, target and possibly a weight, got {cells} cells; {more}"
        return GraphFileError(path, must, line)
    return GraphFileError(path, f"a line must hold {columns} cells as the first one does, got {cells}", line)


_COLUMN_NAMES = {"source", "target", "src", "dst", "from", "to", "u", "v", "head", "tail", "node1", "node2"}


_WEIGHT_NAMES = {"weight", "weights", "edge_weight", "edgeweight", "w", "value", "val", "strength"}


def _third_column(cells: Sequence[str] | None) -> tuple[bool, str]:
    """Whether the third column holds weights, and a sentence that says so.

    Args:
        cells: The three names of columns; None if the file has none.

    >>> _third_column(["source", "target", "since"])[1]
    "third column 'since': ignored; it is read as weights if it is called weight"
    """
    if cells is None:
        return True, "third column: weights"
    name = cells[2].strip("\"'")
    if name.lower().replace(" ", "_") in _WEIGHT_NAMES:
        return True, f"third column {name!r}: weights"
    return False, f"third column {name[:40]!r}: ignored; it is read as weights if it is called weight"


def read_named_edges(path: Path) -> FileGraph:
    """Reads an edge list of names, and numbers nodes in the order of appearance."""
    numbers: dict[str, int] = {}
    ends: list[int] = []
    weights: list[float] = []
    columns, header = 0, None
    is_weight, note = True, ""
    for line, cells in _rows(path):
        if not columns and header is None and _is_header(path, cells):
            header = cells
            continue
        if not columns and len(cells) == 3:
            is_weight, note = _third_column(header if header is not None and len(header) == 3 else None)
        columns = columns or len(cells)
        _check_row(path, line, cells, columns)
        ends += [numbers.setdefault(name, len(numbers)) for name in cells[:2]]
        if columns == 3 and is_weight:
            weights.append(_weight(path, line, cells[2]))
    if not ends:
        raise GraphFileError(path, "holds no edges")
    if header is not None and not note and numbers.keys() >= set(header[:2]):
        note = f"first line {' '.join(header)[:40]!r}: names of columns, not an edge between these nodes"
    return FileGraph(
        edge_index=torch.tensor(ends).view(-1, 2).t().contiguous(),
        num_nodes=len(numbers),
        edge_weight=torch.tensor(weights, dtype=torch.float64) if weights else None,
        labels=tuple(numbers),
        name=path.name,
        note=note,
    )


def _is_header(path: Path, cells: list[str]) -> bool:
    """Whether the first line has the usual names of columns, or a word above the numbers of the third column."""
    if {cell.lower() for cell in cells[:2]} <= _COLUMN_NAMES:
        return True
    thirds = [row[2] for _, (_, row) in zip(range(2), _rows(path), strict=False) if len(row) == 3]
    return len(thirds) == 2 and not is_number(thirds[0]) and is_number(thirds[1])


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each nonempty line; separated by tab, comma or semicolon, else by blanks."""
    separator: str | None = None
    for block, first_line in raw_blocks(path):
        for line, raw in enumerate(blank_comments(block).split(b"\n"), start=first_line):
            if not raw.strip():
                continue
            text = _decoded(path, line, raw)
            separator = separator or next((mark for mark in "\t,;" if mark in text), " ")
            yield line, [cell.strip() for cell in _named_cells(path, line, text, separator)]


def _named_cells(path: Path, line: int, text: str, separator: str) -> list[str]:
    if separator == " ":
        return text.split()
    try:
        return next(csv.reader([text], delimiter=separator))
    except csv.Error as error:  # a cell of more than 128 KB, e.g. after an unclosed quote
        raise GraphFileError(path, f"the line must hold cells ({error})", line) from None


def _decoded(path: Path, line: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise GraphFileError(path, "the line must be UTF-8 text", line) from None


def _check_row(path: Path, line: int, cells: list[str], columns: int) -> None:
    if columns not in (2, 3) or len(cells) != columns:
        raise _ragged(path, line, len(cells), columns)
    if not all(cells):
        raise GraphFileError(path, "a cell is empty", line)


def _weight(path: Path, line: int, cell: str) -> float:
    try:
        value = float(cell.replace("_", "x"))  # reject 1_0, which only Python reads as 10
    except ValueError:
        raise GraphFileError(path, f"{cell[:40]!r} must be a number to be a weight", line) from None
    if value - value != 0:
        raise GraphFileError(path, f"weights must be finite, got {cell!r}", line)
    return value


_Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

# Node numbers are stored in 32 bits while a file is read.
_LARGEST_ID = 2**31 - 1
_LARGEST_INTEGER = 2**63 - 1
# Most unused node numbers: a table of all nodes must not be much larger than the file.
_SPARE_NODES = 10_000_000


def has_names(path: Path) -> bool:
    """Whether the first edge has a node that is no number; a first line of two names may be a header."""
    first = [cells for _, (_, cells) in zip(range(2), _rows(path), strict=False)]
    return bool(first) and not all(is_number(cell) for cell in first[-1][:2])


def read_edge_list(path: Path, *, labels: bool | None = False) -> FileGraph:
    """Reads an edge list: ``source target [weight]`` on each line, separated by spaces, tabs, commas or semicolons.

    Lines that are empty or start with # or % are skipped, and so is a header, under which the third column is a weight
    only if it is called so (weight, w, value, ...). Nodes are whole numbers from 0 and keep their number, so that the
    number of nodes is the largest one plus 1. With ``labels`` every node is a name, and nodes are numbered in the order
    of appearance; None decides by `has_names`. The file is read in blocks of 16 MB.
    """
    if has_names(path) if labels is None else labels:
        return read_named_edges(path)
    ends: list[npt.NDArray[np.int32]] = []
    weights: list[npt.NDArray[np.float64]] = []
    is_weight, note = True, ""
    for block in blocks(path):
        if block.columns == 3 and not ends:
            is_weight, note = _third_column(_header(path))
        block = block if is_weight else _ends_alone(block)
        table = _numbers(path, block)
        _check_ids(path, block, table[:, :2])
        ends.append(table[:, :2].astype(np.int32))
        if block.columns == 3:
            weights.append(np.ascontiguousarray(table[:, 2], np.float64))
    if not ends:
        raise GraphFileError(path, "holds no edges")
    both = np.concatenate(ends)
    found = _graph(path, both, np.concatenate(weights) if weights else None)
    return replace(found, note="; ".join(filter(None, [note, _unnamed(both, found.num_nodes)])))


def _unnamed(ends: npt.NDArray[np.int32], num_nodes: int) -> str:
    """A note about nodes that are there for their number alone."""
    there = np.zeros(num_nodes, dtype=bool)
    there[ends.reshape(-1)] = True
    lacking = num_nodes - int(there.sum())
    if not lacking:
        return ""
    hint = "--labels takes numbers as names"
    return f"nodes are numbers, 0 to {num_nodes - 1:,}: {lacking:,} of them in no edge ({hint})"


def _header(path: Path) -> list[str] | None:
    """The three names of columns, or None."""
    first = next(iter(raw_blocks(path)))[0]
    lines = blank_comments(first).translate(_SEPARATORS).split(b"\n")
    cells = next(line.split() for line in lines if line.strip())
    return [cell.decode(errors="replace") for cell in cells] if _are_names(cells) and len(cells) == 3 else None


def _ends_alone(block: Block) -> Block:
    lines = (b" ".join(line.split()[:2]) for line in block.text.split(b"\n"))
    return block._replace(text=b"\n".join(lines), columns=2)


def _numbers(path: Path, block: Block) -> _Numbers:
    """The table of a block, (lines, columns); `blocks` has checked the columns of every line."""
    plain = not block.text.translate(None, b"0123456789 \n")
    flat = _parsed(path, block, np.int64 if plain else np.float64)
    # numpy saturates integers at the largest one, which a weight may exceed: parse as floats then
    return _parsed(path, block, np.float64) if plain and flat.max(initial=0) == _LARGEST_INTEGER else flat


def _parsed(path: Path, block: Block, dtype: type[Any]) -> _Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's reaction to text that is no number
        try:
            flat: _Numbers = np.fromstring(block.text, dtype, sep=" ")
        except (DeprecationWarning, ValueError):
            raise _first_bad_line(path, block) from None
    if flat.size != block.num_lines * block.columns or not np.isfinite(flat).all():
        raise _first_bad_line(path, block)
    return flat.reshape(-1, block.columns)


def _check_ids(path: Path, block: Block, ids: _Numbers) -> None:
    if ids.size and (ids.min() < 0 or ids.max() > _LARGEST_ID or not bool((ids == np.rint(ids)).all())):
        raise _first_bad_line(path, block)


def _first_bad_line(path: Path, block: Block) -> GraphFileError:
    for line, cells in _cells(block):
        problem = next((text for text in map(_problem_of_id, cells[:2]) if text), "") or _problem_of_weight(cells[2:])
        if problem:
            return GraphFileError(path, problem, line)
    return GraphFileError(path, "holds text that is not a number", block.first_line)


def _cells(block: Block) -> Iterator[tuple[int, list[bytes]]]:
    for number, text in enumerate(block.text.split(b"\n"), start=block.first_line):
        if text.strip():
            yield number, text.split()


def _problem_of_id(cell: bytes) -> str:
    try:
        value = float(cell.decode())
    except UnicodeDecodeError:
        return "the line must be UTF-8 text"
    except ValueError:
        return f"{_shown(cell)} must be a node number; names are numbered with labels=True"
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        return f"{_shown(cell)} must be a whole number to be a node"
    if value < 0:
        return f"node numbers must not be negative, got {_shown(cell)}"
    return f"node numbers must be at most {_LARGEST_ID}, got {_shown(cell)}" if value > _LARGEST_ID else ""


def _problem_of_weight(cells: list[bytes]) -> str:
    for cell in cells:
        try:
            value = float(cell.decode())
        except UnicodeDecodeError:
            return "the line must be UTF-8 text"
        except ValueError:
            return f"{_shown(cell)} must be a number to be a weight"
        if not np.isfinite(value):
            return f"weights must be finite, got {_shown(cell)}"
    return ""


def _shown(cell: bytes) -> str:
    return repr(cell.decode()[:40])


def _graph(path: Path, ends: npt.NDArray[np.int32], weights: npt.NDArray[np.float64] | None) -> FileGraph:
    num_nodes = int(ends.max()) + 1
    if num_nodes > 2 * len(ends) + _SPARE_NODES:
        raise GraphFileError(
            path, f"node numbers reach {num_nodes - 1} with {len(ends)} edges; number them densely with labels=True"
        )
    edge_index = torch.from_numpy(ends.T.astype(np.int64))
    weight = None if weights is None else torch.from_numpy(weights)
    return FileGraph(edge_index, num_nodes, edge_weight=weight, name=path.name)
