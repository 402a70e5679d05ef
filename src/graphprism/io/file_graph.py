"""The graph of a file, its errors, and opening of plain and gzip files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from torch import Tensor

from graphprism._files import Gunzip


@dataclass(frozen=True, eq=False)
class FileGraph:
    """One graph, or several as one batch; fields that the file lacks are None.

    Shapes: ``edge_index`` (2, E), ``x`` (N, F), ``edge_attr`` (E, D), ``edge_weight`` and ``edge_type`` (E,),
    ``batch`` (N,)

    Attributes:
        edge_index: Source and target of each edge.
        num_nodes: Number of nodes.
        x: Features of the nodes.
        edge_attr: Features of the edges.
        edge_weight: Weight of each edge.
        edge_type: Relation of each edge, for files that `graphprism split` wrote.
        batch: Index of the graph of each node, if the file holds several.
        labels: Name of each node in the file, if nodes are not numbers there.
        name: Name of the graph.
        edge_names: Names of the columns of ``edge_attr``, each of which is an attribute, too; empty if they have none.
        note: How the third column of an edge list was read, or which attributes of GraphML were not; empty without any.
    """

    edge_index: Tensor
    num_nodes: int
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    batch: Tensor | None = None
    labels: tuple[str, ...] | None = None
    name: str = ""
    edge_type: Tensor | None = None
    note: str = ""
    edge_names: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Tensor:
        """The column of ``edge_attr`` of that name, so that a split can read it: ``attr(NAME)``."""
        names, rows = vars(self).get("edge_names", ()), vars(self).get("edge_attr")
        if name not in names or rows is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        column: Tensor = rows[:, names.index(name)]
        return column


class GraphFileError(ValueError):
    """A file cannot be read as a graph; the message is one sentence with the file and, if known, the line."""

    def __init__(self, path: Path, problem: str, line: int | None = None) -> None:
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}")
        self.line = line


_GZIP = b"\x1f\x8b"


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Opens ``path`` for reading bytes; decompresses gzip, detected by its first bytes."""
    if path.is_dir():
        raise GraphFileError(path, "is a folder, not a file")
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if not path.is_file():
        raise GraphFileError(path, "must be a file, got a pipe or a device")
    with path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        with _sentences(path, 1):
            file = cast("BinaryIO", Gunzip(raw)) if compressed else raw
        yield file


def read_block(path: Path, file: BinaryIO, size: int, lines_so_far: int) -> bytes:
    """Reads up to ``size`` bytes; the error for a damaged archive names the last readable line."""
    with _sentences(path, lines_so_far):
        return file.read(size)


@contextmanager
def _sentences(path: Path, lines_so_far: int) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise GraphFileError(
            path, f"the compressed file is damaged or cut off ({error})", max(lines_so_far, 1)
        ) from error
    except ValueError as error:
        raise GraphFileError(path, str(error), max(lines_so_far, 1)) from error
