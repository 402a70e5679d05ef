"""Edge lists whose nodes are names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import torch

from graphprism.analysis.graph_files._edge_lines import blank_comments, raw_blocks
from graphprism.analysis.graph_files.file_graph import FileGraph
from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_COLUMN_NAMES = {"source", "target", "src", "dst", "from", "to", "u", "v", "head", "tail", "node1", "node2"}


def read_named_edges(path: Path) -> FileGraph:
    """Reads an edge list of names, and numbers nodes in the order in which they appear."""
    numbers: dict[str, int] = {}
    ends: list[int] = []
    weights: list[float] = []
    columns = 0
    for line, cells in _rows(path):
        if not columns and {cell.lower() for cell in cells[:2]} <= _COLUMN_NAMES:
            continue
        columns = columns or len(cells)
        _check_row(path, line, cells, columns)
        ends += [numbers.setdefault(name, len(numbers)) for name in cells[:2]]
        if columns == 3:
            weights.append(_weight(path, line, cells[2]))
    if not ends:
        raise GraphFileError(path, "holds no edges")
    return FileGraph(
        edge_index=torch.tensor(ends).view(-1, 2).t().contiguous(),
        num_nodes=len(numbers),
        edge_weight=torch.tensor(weights, dtype=torch.float64) if weights else None,
        labels=tuple(numbers),
        name=path.name,
    )


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line that holds any; a tab, a comma or a semicolon separates, else blanks do."""
    separator: str | None = None
    for block, first_line in raw_blocks(path):
        for line, raw in enumerate(blank_comments(block).split(b"\n"), start=first_line):
            if not raw.strip():
                continue
            text = _decoded(path, line, raw)
            separator = separator or next((mark for mark in "\t,;" if mark in text), " ")
            yield line, [cell.strip() for cell in _cells(path, line, text, separator)]


def _cells(path: Path, line: int, text: str, separator: str) -> list[str]:
    if separator == " ":
        return text.split()
    try:
        return next(csv.reader([text], delimiter=separator))
    except csv.Error as error:  # a cell of more than 128 KB, which an open quote makes of many lines
        raise GraphFileError(path, f"the line must hold cells ({error})", line) from None


def _decoded(path: Path, line: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise GraphFileError(path, "the line must be UTF-8 text", line) from None


def _check_row(path: Path, line: int, cells: list[str], columns: int) -> None:
    if columns not in (2, 3):
        raise GraphFileError(path, f"a line must hold source, target and possibly a weight, got {columns} cells", line)
    if len(cells) != columns:
        raise GraphFileError(path, f"a line must hold {columns} cells as the first one does, got {len(cells)}", line)
    if not all(cells):
        raise GraphFileError(path, "a cell is empty", line)


def _weight(path: Path, line: int, cell: str) -> float:
    try:
        value = float(cell.replace("_", "x"))  # Python reads 1_0 as 10, no other program does
    except ValueError:
        raise GraphFileError(path, f"{cell[:40]!r} must be a number to be a weight", line) from None
    if value - value != 0:
        raise GraphFileError(path, f"weights must be finite, got {cell!r}", line)
    return value
