"""Edges with their relations as `split_file` wrote them: opened, verified and read back."""

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
from graphprism.streaming.edge_file import EdgeFileError
from graphprism.streaming.growing_parquet import read_about, verified_groups


@dataclass(frozen=True)
class TypedEdges:
    """A file of edges with the column ``edge_type``; all that is read of it is compared with its checksums.

    Attributes:
        path: The file.
        split: The split as text.
        source: Column of the nodes that edges leave.
        target: Column of the nodes that edges enter.
        num_nodes: Number of nodes.
        num_edges: Number of edges.
        num_relations: Number of relations.
        names: Names of the relations, None where there are none or too many.
        counts: Edges of each relation, None where there are too many relations.
        sparse_ids: Whether ids are any integers instead of numbers from 0.
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

    def chunks(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yields a ``pyarrow.Table`` for each row group, after its checksum was compared.

        Raises:
            EdgeFileError: The bytes are not those that were written.
        """
        try:
            about = read_about(self.path)
            with pyarrow().parquet.ParquetFile(self.path) as file:
                for number in verified_groups(self.path, about):
                    yield file.read_row_group(number, columns=None if columns is None else list(columns))
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def verify(self) -> None:
        """Compares the whole file with its checksums; raises `EdgeFileError` if one is not right."""
        try:
            for _ in verified_groups(self.path, read_about(self.path)):
                pass
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def read(self) -> dict[str, Any]:
        """Everything in memory, as the arguments of ``torch_geometric.data.Data``.

        ``edge_index`` (2, E), ``edge_type`` (E,) long, ``num_nodes``, and each further column of numbers, (E,). With
        sparse ids nodes are numbered by ascending id, and ``node_id`` (N,) has the ids.
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
        if self.sparse_ids:
            found["node_id"], found["edge_index"] = edge_index.unique(return_inverse=True)
        return {**found, "num_nodes": self.num_nodes, **columns}

    def edge_index_of(self, relation: int) -> Tensor:
        """The edges of one relation, (2, E_r), in the order of the file."""
        parts = []
        for table in self.chunks([self.source, self.target, "edge_type"]):
            own = table.column("edge_type").to_numpy() == relation
            parts.append(np.stack([table.column(name).to_numpy()[own] for name in (self.source, self.target)]))
        return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.int64))


def open_split(path: str | os.PathLike[str]) -> TypedEdges:
    """Opens a file that `split_file` wrote, and compares the checksum of its footer.

    Raises:
        FileNotFoundError: There is no such file.
        EdgeFileError: It is cut off, damaged or of another kind.
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
