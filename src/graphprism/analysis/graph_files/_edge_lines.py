"""An edge list in blocks of whole lines, all with the same number of columns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from graphprism.analysis.graph_files._open_file import open_file, read_block
from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_BLOCK_BYTES = 16 << 20
_LONGEST_LINE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATORS = bytes.maketrans(b",;\t\x0b\x0c", b"     ")
_COMMENT = re.compile(rb"^[ \t]*[#%][^\n]*", re.MULTILINE)
_EMPTY_CELL = re.compile(rb"[,;][ \t]*(?=[,;\n]|\Z)|^[ \t]*[,;]", re.MULTILINE)


class Block(NamedTuple):
    """Whole lines with cells separated by spaces; comments and names of columns are blank."""

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
    """Blocks of whole lines, which end in LF alone, with the number of their first line."""
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
    """The block with the lines that start with # or % left empty, so that the numbers of lines stay."""
    return _COMMENT.sub(b"", block) if b"#" in block or b"%" in block else block


def _unix_lines(path: Path, block: bytes, first_line: int) -> bytes:
    """The block without the CR of CRLF; a CR elsewhere may end a line or not, and deleting it would join numbers."""
    if b"\r" not in block:
        return block
    block = block.replace(b"\r\n", b"\n")
    if (place := block.find(b"\r")) >= 0:
        line = first_line + block.count(b"\n", 0, place)
        raise GraphFileError(path, "lines must end in LF or CRLF, got a carriage return (CR) alone", line)
    return block


def _warn_if_cut(path: Path, file: BinaryIO, line: int) -> None:
    # Small files are often written by hand and end without a line break; large ones come from programs.
    if file.tell() > _BLOCK_BYTES:
        warnings.warn(
            f"{path}, line {line}: the last line does not end in a line break; if the file was cut off, it is wrong",
            stacklevel=2,
        )


def _check_no_empty_cell(path: Path, block: bytes, first_line: int) -> None:
    if (b"," in block or b";" in block) and (empty := _EMPTY_CELL.search(block)):
        raise GraphFileError(path, "a cell is empty", first_line + block.count(b"\n", 0, empty.start()))


def _blank_header(text: bytes) -> bytes:
    """Leaves the first line that is not empty blank if neither of its first two cells looks like a number."""
    start = len(text) - len(text.lstrip())
    end = text.find(b"\n", start)
    line = text[start : len(text) if end < 0 else end]
    cells = line.split()
    names = len(cells) in (2, 3) and not any(_has_digit_first(cell) for cell in cells[:2])
    return text[:start] + b" " * len(line) + text[start + len(line) :] if names and end >= 0 else text


def _has_digit_first(cell: bytes) -> bool:
    return cell.lstrip(b"+-.")[:1].isdigit()


def _cells_per_line(text: bytes) -> npt.NDArray[np.int64]:
    """Number of cells on each line, (lines,)."""
    codes = np.frombuffer(text, np.uint8)
    separator = codes <= 32
    separators = codes[separator]
    regular = codes.size and not separator[0] and separator[-1] and not (separator[1:] & separator[:-1]).any()
    newlines = np.flatnonzero(separators == 10)
    if regular:  # cells and separators alternate: the cells of a line are its separators
        return np.diff(newlines, prepend=-1)
    starts = ~separator
    starts[1:] &= separator[:-1]
    ends = np.append(np.flatnonzero(codes == 10), codes.size)
    counts: npt.NDArray[np.int64] = np.diff(np.concatenate([[0], np.cumsum(starts)])[ends], prepend=0)
    return counts


def _ragged(path: Path, line: int, cells: int, columns: int) -> GraphFileError:
    if columns not in (2, 3):
        return GraphFileError(path, f"a line must hold source, target and possibly a weight, got {cells} cells", line)
    return GraphFileError(path, f"a line must hold {columns} cells as the first one does, got {cells}", line)
