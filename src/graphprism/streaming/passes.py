"""Passes over an edge file that can be interrupted anywhere and resumed."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism._files import whole_file
from graphprism.streaming.arrow import pyarrow
from graphprism.streaming.edge_file import EdgeFile, EdgeFileError, node_keys

# Interval of checkpoints: a killed process loses at most this much work, and one chunk.
SAVE_SECONDS = 10.0

# Called with the name of a pass, the edges done in it, and their total number if known.
Progress = Callable[[str, int, "int | None"], None]
# Called with sources, targets and the table of a chunk.
Update = Callable[[Tensor, Tensor, Any], None]


@dataclass
class State:
    """Results of the passes so far, checkpointed every `SAVE_SECONDS`."""

    stage: int = 0
    done: int = 0  # edges in this stage
    num_edges: int = 0
    num_nodes: int = 0
    maxima: dict[str, int] = field(default_factory=dict)  # largest value of each attribute
    written: list[int] = field(default_factory=list)  # keys in each bucket of `MutualEdges`
    spilled: int = 0  # edges in `SpilledEdges`
    arrays: dict[str, Tensor] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes the state, atomically."""
        about = {key: value for key, value in vars(self).items() if key != "arrays"}
        with whole_file(path, "the state of a split") as file:
            arrays: Any = {key: value.numpy() for key, value in self.arrays.items()}
            np.savez(file, about=np.array(json.dumps(about)), **arrays)

    @classmethod
    def load(cls, path: Path) -> State:
        """The saved state, or a new one if it is missing or damaged."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                arrays = {name: torch.from_numpy(file[name]) for name in file.files if name != "about"}
            return cls(**about, arrays=arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return cls()


class Passes:
    """Reads the edges of a file chunk by chunk, as often as needed, and checkpoints the results.

    Args:
        edges: The edges.
        folder: Where the state is kept.
        sparse_ids: Whether nodes are numbered by the sorted array ``ids`` of the state, once stage 0 has collected it.
        progress: Shows the progress of a pass.

    Attributes:
        state: Results so far.
        before_save: Functions that bring the state up to date before it is saved.
    """

    def __init__(self, edges: EdgeFile, folder: Path, sparse_ids: bool, progress: Progress) -> None:
        self.edges, self.folder, self.progress = edges, folder, progress
        self.before_save: list[Callable[[], None]] = []
        self._sparse_ids = sparse_ids
        self.state, self._saved = State.load(folder / "state.npz"), time.monotonic()

    def run(self, stage: int, name: str, columns: Sequence[str], update: Update) -> None:
        """Calls ``update`` with the ends and the table of each chunk of a stage that is not processed yet."""
        if self.state.stage > stage:
            return
        ends = [self.edges.source, self.edges.target, *([self.edges.graph] if self.edges.graph else [])]
        wanted = list(dict.fromkeys([*ends, *columns]))
        self._begin(stage)
        tables = self.edges.chunks(wanted, self.state.done)
        for table in self._counted(name, ((table.num_rows, table) for table in tables), self._total):
            update(*self.ends(table), table)
        self.state.num_edges = self.state.done
        self._end()

    def run_on(
        self,
        stage: int,
        name: str,
        chunks: Callable[[int], Iterator[tuple[Tensor, Tensor]]],
        total: int,
        update: Callable[[Tensor, Tensor], None],
    ) -> None:
        """`run` on other edges than those of the file.

        Args:
            stage: Number of the stage.
            name: Name of the pass.
            chunks: Gives sources and targets of each chunk, without as many edges as it is called with.
            total: Number of these edges.
            update: Called with the ends of each chunk.
        """
        self._begin(stage)
        counted = ((source.numel(), (source, target)) for source, target in chunks(self.state.done))
        for ends in self._counted(name, counted, lambda: total):
            update(*ends)
        self._end()

    def ends(self, table: Any) -> tuple[Tensor, Tensor]:
        """Source and target of a chunk as numbers of nodes, or as ids before those are known."""
        ids = [self._column(table, name) for name in (self.edges.source, self.edges.target)]
        if self.edges.graph is not None:
            graphs = self._small(self._column(table, self.edges.graph), self.edges.graph)
            names = (self.edges.source, self.edges.target)
            ids = [node_keys(self._small(each, name), graphs) for name, each in zip(names, ids, strict=True)]
        if self._sparse_ids and self.state.stage > 0:
            ids = [torch.searchsorted(self.state.arrays["ids"], each) for each in ids]
        return ids[0], ids[1]

    def _small(self, ids: Tensor, name: str) -> Tensor:
        """``ids``, of a file of several graphs."""
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= 1 << 31:
            came = low if low < 0 else high
            must = f"column {name!r} must hold numbers in [0, 2^31) where there are graphs ({self.edges.graph})"
            raise EdgeFileError(self.edges.path, f"{must}, got {came}")
        return ids

    def _begin(self, stage: int) -> None:
        if self.state.stage < stage:
            self.state.stage, self.state.done = stage, 0

    def _end(self) -> None:
        self.state.stage, self.state.done = self.state.stage + 1, 0

    def _counted(self, name: str, chunks: Iterator[tuple[int, Any]], total: Callable[[], int | None]) -> Iterator[Any]:
        """Yields chunks; counts the edges of each after it was used, and checkpoints if that is due."""
        self.progress(name, self.state.done, total())
        for count, chunk in chunks:
            yield chunk
            self.state.done += count
            self.progress(name, self.state.done, total())
            self._save_if_due()

    def _total(self) -> int | None:
        return self.state.num_edges or (None if self.edges.undirected else self.edges.num_rows)

    def _save_if_due(self) -> None:
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            for update_state in self.before_save:
                update_state()
            self.state.save(self.folder / "state.npz")
            self._saved = time.monotonic()

    def _column(self, table: Any, name: str) -> Tensor:
        """A column of whole numbers, copied to a long tensor."""
        column = table.column(name)
        if not pyarrow().types.is_integer(column.type):
            kind, advice = "node", "number the nodes, or split by SQL (--sql), which allows ids of any type"
            if name == self.edges.graph:
                kind, advice = "graph", "number the graphs, or rename the column if the edges are of one graph"
            raise EdgeFileError(
                self.edges.path, f"{kind} ids must be whole numbers, got {column.type} in column {name!r}: {advice}"
            )
        if column.null_count:
            raise EdgeFileError(self.edges.path, f"column {name!r} must have a value in every row, got missing values")
        ids = column.to_numpy()
        if ids.dtype == np.uint64 and ids.size and ids.max() > np.iinfo(np.int64).max:
            raise EdgeFileError(self.edges.path, f"ids must be below 2^63, got {ids.max()} in column {name!r}")
        return torch.from_numpy(np.array(ids, np.int64))
