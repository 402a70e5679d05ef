"""Edge files, read in chunks of bounded size: Parquet, CSV, .npy and .npz."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphprism.packed import graph_sizes, open_arrays
from graphprism.streaming.arrow import pyarrow

# 2^21 edges: 34 MB for the ids of a chunk, and a row group of the output.
CHUNK = 1 << 21
# Usual names of the source and target columns.
_NAMES = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail"), ("row", "col"))
# Column that tells the graph of an edge, in a file of several graphs.
GRAPH = "graph_id"
# Other names that such a column often has, without case and punctuation; not read unless named.
_LIKE_GRAPH = ("graph", "graphid", "molecule", "moleculeid", "mol", "molid", "sample", "sampleid")
_FINGERPRINT_BYTES = 1 << 16


class EdgeFileError(ValueError):
    """A file of edges cannot be used; the message is one sentence with the file."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


@dataclass(frozen=True)
class EdgeFile:
    """Edges of a file or of a folder of Parquet files; a chunk is a ``pyarrow.Table``.

    Attributes:
        path: The file or folder.
        files: The file, or the files of the folder sorted by name.
        columns: Names of all columns.
        source: Column of source nodes.
        target: Column of target nodes.
        num_rows: Edges in the file; None if unknown before reading.
        undirected: Whether to append the reverse of every edge, after all edges; loops are not duplicated.
        graph: Column of the graph of every edge; None for a file of one graph.
    """

    path: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    source: str
    target: str
    num_rows: int | None
    undirected: bool
    graph: str | None = None

    def fingerprint(self) -> str:
        """SHA-256 fingerprint of names, sizes, times, and first and last bytes; changes if a file is rewritten."""
        total = hashlib.sha256()
        for path in self.files:
            about = path.stat()
            total.update(f"{path.resolve()} {about.st_size} {about.st_mtime_ns} ".encode())
            with path.open("rb") as file:
                total.update(file.read(_FINGERPRINT_BYTES))
                file.seek(max(about.st_size - _FINGERPRINT_BYTES, 0))
                total.update(file.read(_FINGERPRINT_BYTES))
        return total.hexdigest()

    def chunks(self, columns: Sequence[str], skip: int = 0) -> Iterator[Any]:
        """Yields tables of ``columns`` with `CHUNK` edges each (the last may be shorter), after ``skip`` edges."""
        waiting: list[Any] = []
        rows = 0
        with _sentences(self.path):
            for table in self._tables(columns, skip):
                waiting.append(table)
                rows += table.num_rows
                while rows >= CHUNK:
                    whole = pyarrow().concat_tables(waiting)
                    yield whole.slice(0, CHUNK).combine_chunks()
                    waiting, rows = [whole.slice(CHUNK)], rows - CHUNK
            if rows:
                yield pyarrow().concat_tables(waiting).combine_chunks()

    def _tables(self, columns: Sequence[str], skip: int) -> Iterator[Any]:
        """Tables of any size; reverse edges after all others."""
        read = _READERS[_kind(self.files[0])]
        if not self.undirected:
            yield from read(self, columns, skip)
        elif self.num_rows is None:
            yield from _without_first(chain(read(self, columns, 0), self._turned(columns)), skip)
        else:
            yield from read(self, columns, skip)
            yield from _without_first(self._turned(columns), max(skip - self.num_rows, 0))

    def _turned(self, columns: Sequence[str]) -> Iterator[Any]:
        swap = {self.source: self.target, self.target: self.source}
        for table in _READERS[_kind(self.files[0])](self, columns, 0):
            turned = table.select([swap.get(name, name) for name in columns]).rename_columns(list(columns))
            yield turned.filter(pyarrow().compute.not_equal(turned[self.source], turned[self.target]))


def open_edges(
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    graph: str | None = None,
    undirected: bool = False,
) -> EdgeFile:
    """Opens an edge file, or a folder of Parquet files; reads only column names and sizes.

    A column ``graph_id``, or the one that ``graph`` names, makes it a file of several graphs, whose nodes may have the
    same ids. A warning says of a column such as ``mol_id`` that it is not read.

    Args:
        path: Parquet, CSV (comma, tab, semicolon or space; with or without a header; gz), ``.npy`` of shape (2, E) or
            (E, 2), or packed ``.npz`` of one graph. The format is detected from the first bytes.
        source: Column of source nodes; by default one of the usual names, else the first column.
        target: Column of target nodes; by default the partner of ``source``, else the second column.
        graph: Column of the graph of every edge; by default ``graph_id``, if there is one.
        undirected: Add the reverse of every edge (loops are not duplicated), for files that list an edge once.

    Raises:
        EdgeFileError: The file cannot be used; a `ValueError` of one sentence.
    """
    path = Path(path)
    files = tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else (path,)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if not files or not all(file.is_file() for file in files):
        raise EdgeFileError(path, "must be a file or a folder of .parquet files")
    if path.is_dir() and any(_kind(file) != "parquet" for file in files):
        raise EdgeFileError(path, "must hold Parquet files alone")
    with _sentences(path):
        columns, rows = _LOOKS[_kind(path if path.is_file() else files[0])](files)
    if len(columns) < 2:
        raise EdgeFileError(path, f"must have at least two columns, got {', '.join(columns) or 'none'}")
    usual = next((pair for pair in _NAMES if set(pair) <= set(columns)), columns[:2])
    source, target = source or usual[0], target or usual[1]
    for name in (source, target, *([] if graph is None else [graph])):
        if name not in columns:
            raise EdgeFileError(path, f"has no column {name!r}; there are {', '.join(columns)}")
    if source == target:
        raise EdgeFileError(path, f"source and target must be two columns, got {source!r} for both")
    others = [name for name in columns if name not in (source, target)]
    if graph is not None and graph not in others:
        raise EdgeFileError(path, f"the graph must be another column than source and target, got {graph!r}")
    if graph is None and GRAPH in others:
        graph = GRAPH
    like = next((name for name in others if re.sub(r"[\W_]", "", name.lower()) in _LIKE_GRAPH), None)
    if graph is None and like is not None:
        way = f"graph={like!r} (--graph {like}) splits each graph by itself"
        warnings.warn(f"{path}: the column {like!r} is not read, equal ids are one node: {way}", stacklevel=2)
    return EdgeFile(path, files, columns, source, target, rows, undirected, graph)


def node_keys(nodes: Tensor, graphs: Tensor) -> Tensor:
    """A number for every pair (graph, node) of numbers below 2^31, ordered by graph."""
    return (graphs << 32) | nodes


def from_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes and the graphs of which `node_keys` made ``keys``."""
    return keys & (1 << 32) - 1, keys >> 32


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(6)
    kinds = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUM": "npy"}
    return kinds.get(start[:4], "csv")


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turns errors of pyarrow and numpy about the content into `EdgeFileError`."""
    try:
        yield
    except EdgeFileError:
        raise
    except (pyarrow().ArrowException, ValueError, EOFError) as error:
        raise EdgeFileError(path, str(error).strip().splitlines()[0]) from error


def _without_first(tables: Iterator[Any], rows: int) -> Iterator[Any]:
    for table in tables:
        left = table.slice(min(rows, table.num_rows))
        rows -= table.num_rows - left.num_rows
        if left.num_rows:
            yield left


def _look_at_parquet(files: Sequence[Path]) -> tuple[tuple[str, ...], int]:
    schemas, rows = [], 0
    for path in files:
        with pyarrow().parquet.ParquetFile(path) as file:
            schemas.append(file.schema_arrow)
            rows += file.metadata.num_rows
    for path, schema in zip(files, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise ValueError(f"all files must have the columns of {files[0].name}, got others in {path.name}")
    return tuple(schemas[0].names), rows


def _read_parquet(edges: EdgeFile, columns: Sequence[str], skip: int) -> Iterator[Any]:
    for path in edges.files:
        # With a buffer: otherwise a whole column chunk is read at once, and a file may have a single row group.
        with pyarrow().parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            group, sizes = 0, [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            while group < len(sizes) and skip >= sizes[group]:
                skip, group = skip - sizes[group], group + 1
            left = range(group, len(sizes))
            batches = file.iter_batches(CHUNK, row_groups=left, columns=list(columns)) if left else iter(())
            tables = (pyarrow().Table.from_batches([batch]).select(list(columns)) for batch in batches)
            yield from _without_first(tables, skip)
            skip = 0 if left else skip


def _csv_options(path: Path) -> tuple[Any, Any, Any]:
    """Options of pyarrow's CSV reader, from the first line that is no comment: separator and header."""
    with pyarrow().input_stream(str(path), compression="detect") as file:
        start = file.read(1 << 16).decode("utf-8-sig", errors="replace")
    lines = start.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    skipped = next((i for i, line in enumerate(lines) if line.strip() and line[0] not in "#%"), len(lines))
    if skipped == len(lines):
        raise ValueError("holds no edges")
    first = lines[skipped]
    separator = next((each for each in ",;\t" if each in first), " ")
    cells = [cell.strip().strip('"') for cell in first.split(separator)]
    named = not all(cell.lstrip("+-").isdigit() for cell in cells[:2])
    names = ["source", "target", *(f"column_{i}" for i in range(2, len(cells)))]
    csv = pyarrow().csv
    read = csv.ReadOptions(skip_rows=skipped, column_names=None if named else names, block_size=16 << 20)
    return read, csv.ParseOptions(delimiter=separator), csv.ConvertOptions(strings_can_be_null=False)


def _look_at_csv(files: Sequence[Path]) -> tuple[tuple[str, ...], None]:
    read, parse, convert = _csv_options(files[0])
    with pyarrow().csv.open_csv(files[0], read, parse, convert) as reader:
        return tuple(reader.schema.names), None


def _read_csv(edges: EdgeFile, columns: Sequence[str], skip: int) -> Iterator[Any]:
    read, parse, convert = _csv_options(edges.path)
    convert.include_columns = list(columns)
    with pyarrow().csv.open_csv(edges.path, read, parse, convert) as reader:
        yield from _without_first((pyarrow().Table.from_batches([batch]) for batch in reader), skip)


def _look_at_npy(files: Sequence[Path]) -> tuple[tuple[str, ...], int]:
    return ("source", "target"), _npy(files[0]).shape[1]


def _npy(path: Path) -> Any:
    """The array (2, E), memory-mapped."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
        raise ValueError(f"must hold whole numbers of shape [2, E] or [E, 2], got {array.dtype} {list(array.shape)}")
    return array if array.shape[0] == 2 else array.T


def _read_npy(edges: EdgeFile, columns: Sequence[str], skip: int) -> Iterator[Any]:
    return _slices({"source": _npy(edges.path)[0], "target": _npy(edges.path)[1]}, columns, skip)


def _npz(path: Path) -> dict[str, Any]:
    arrays = open_arrays(path, ("edge_index", "edge_attr", "x", "num_nodes", "num_edges"))
    nodes, _ = graph_sizes(arrays)
    if nodes.size != 1:
        raise ValueError(f"must hold a single graph, got {nodes.size}: use `SplitEdges`")
    found = {"source": arrays["edge_index"][0], "target": arrays["edge_index"][1]}
    attr = arrays.get("edge_attr")
    if attr is not None and attr.ndim <= 2 and attr.size == found["source"].size:
        found["edge_attr"] = attr.reshape(-1)
    return found


def _look_at_npz(files: Sequence[Path]) -> tuple[tuple[str, ...], int]:
    arrays = _npz(files[0])
    return tuple(arrays), arrays["source"].size


def _read_npz(edges: EdgeFile, columns: Sequence[str], skip: int) -> Iterator[Any]:
    return _slices(_npz(edges.path), columns, skip)


def _slices(arrays: dict[str, Any], columns: Sequence[str], skip: int) -> Iterator[Any]:
    for start in range(skip, len(arrays["source"]), CHUNK):
        yield pyarrow().table({name: np.ascontiguousarray(arrays[name][start : start + CHUNK]) for name in columns})


_LOOKS: dict[str, Any] = {
    "parquet": _look_at_parquet,
    "csv": _look_at_csv,
    "npy": _look_at_npy,
    "npz": _look_at_npz,
}
_READERS: dict[str, Any] = {"parquet": _read_parquet, "csv": _read_csv, "npy": _read_npy, "npz": _read_npz}
