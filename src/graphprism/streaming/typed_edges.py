"""Reader of the files of `split_file`: edges with their relations, verified by checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.streaming.arrow import holds_numbers, pyarrow
from graphprism.streaming.edge_file import EdgeFileError, from_keys, node_keys
from graphprism.streaming.growing_parquet import read_about, verified_groups


@dataclass(frozen=True)
class TypedEdges:
    """An edge file with the column ``edge_type``; everything read from it is verified by checksums.

    Attributes:
        path: The file.
        split: The split as text.
        source: Column of source nodes.
        target: Column of target nodes.
        num_nodes: Number of nodes.
        num_edges: Number of edges.
        num_relations: Number of relations.
        names: Names of the relations; None if there are none or too many.
        counts: Edges of each relation; None if there are too many relations.
        sparse_ids: Whether ids are arbitrary integers instead of numbers from 0.
        graph: Column of the graph of every edge; None for a file of one graph.
    """

    path: Path
    split: str
    source: str
    target: str
    num_nodes: int
    num_edges: int
    num_relations: int
    names: tuple[str, ...] | None
    counts: tuple[int, ...] | None
    sparse_ids: bool
    graph: str | None = None

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yields a ``pyarrow.Table`` for each row group, after verifying its checksum.

        Raises:
            EdgeFileError: A checksum does not match.
        """
        try:
            about = read_about(self.path)
            with pyarrow().parquet.ParquetFile(self.path) as file:
                for number in verified_groups(self.path, about):
                    yield file.read_row_group(number, columns=None if columns is None else list(columns))
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def verify(self) -> None:
        """Verifies all checksums of the file; raises `EdgeFileError` if one does not match."""
        try:
            for _ in verified_groups(self.path, read_about(self.path)):
                pass
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def read(self) -> dict[str, Any]:
        """Reads the whole file into memory, as keyword arguments of ``torch_geometric.data.Data``.

        ``edge_index`` (2, E), ``edge_type`` (E,) long, ``num_nodes``, and each further numeric column, (E,), unless it
        has the name of one of these. With
        sparse ids nodes are numbered by ascending id, and ``node_id`` (N,) holds the ids. Of several
        graphs, they are numbered graph by graph, and ``batch`` (N,) holds the number of the graph of every node.
        """
        parts: dict[str, list[Any]] = {}
        for table in self.chunks():
            for name in table.column_names:
                column = table.column(name)
                if name in (self.source, self.target, "edge_type") or holds_numbers(column):
                    parts.setdefault(name, []).append(column.to_numpy())
        columns = {name: torch.from_numpy(np.concatenate(arrays)) for name, arrays in parts.items()}
        edge_index = torch.stack([columns.pop(self.source).long(), columns.pop(self.target).long()])
        found: dict[str, Any] = {"edge_index": edge_index, "edge_type": columns.pop("edge_type").long()}
        if self.graph is not None:
            key, found["edge_index"] = node_keys(edge_index, columns[self.graph].long()).unique(return_inverse=True)
            found["node_id"], graphs = from_keys(key)
            found["batch"] = graphs.unique(return_inverse=True)[1]
        elif self.sparse_ids:
            found["node_id"], found["edge_index"] = edge_index.unique(return_inverse=True)
        return {**columns, **found, "num_nodes": self.num_nodes}

    def edge_index_of(self, relation: int) -> Tensor:
        """The edges of one relation, (2, E_r), in the order of the file, which must hold one graph."""
        if self.graph is not None:
            raise ValueError(f"{self.path}: must hold one graph, got several (column {self.graph}): see `read`")
        parts = []
        for table in self.chunks([self.source, self.target, "edge_type"]):
            own = table.column("edge_type").to_numpy() == relation
            parts.append(np.stack([table.column(name).to_numpy()[own] for name in (self.source, self.target)]))
        return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.int64))


def open_split(path: str | os.PathLike[str]) -> TypedEdges:
    """Opens a file that `split_file` wrote, and verifies the checksum of its footer.

    Raises:
        FileNotFoundError: There is no such file.
        EdgeFileError: It is truncated, damaged or of another format.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        about = read_about(path)
    except ValueError as error:
        raise _damaged(path, error) from error
    del about["ends"], about["row_groups"]
    about["names"], about["counts"] = (None if about[key] is None else tuple(about[key]) for key in ("names", "counts"))
    return TypedEdges(path, **about)


def _damaged(path: Path, error: ValueError) -> EdgeFileError:
    return EdgeFileError(path, f"{error}; split the edges again")
