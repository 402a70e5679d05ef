"""The ends of edges in files of their own, four bytes each: what many passes read again costs no decoding."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.streaming import edge_file

# Nodes whose numbers fit; with more, ends would take more bytes than in Parquet.
MOST_SPILLED_NODES = 2**31
_BYTES = 4


class SpilledEdges:
    """Sources and targets in the order in which they are added, without loops.

    Args:
        folder: Where the two files are.
        written: Edges that a killed process had added for certain; what lies behind them is cut off.
    """

    def __init__(self, folder: Path, written: int = 0) -> None:
        self._paths = [folder / f"spilled.{end}" for end in ("source", "target")]
        self._files: list[Any] = []
        self.written = written

    def add(self, source: Tensor, target: Tensor) -> None:
        """Appends the edges of a chunk."""
        if not self._files:
            self._open()
        for file, nodes in zip(self._files, (source, target), strict=True):
            file.write(nodes.to(torch.int32).numpy().data)
        self.written += source.numel()

    def sync(self) -> None:
        """Makes what was added durable; `written` then says how much that is."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Ends adding, durably."""
        self.sync()
        for file in self._files:
            file.close()
        self._files = []

    def is_whole(self) -> bool:
        """Whether all that was added is there."""
        return all(path.is_file() and path.stat().st_size == _BYTES * self.written for path in self._paths)

    def chunks(self, skip: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields sources and targets, int32, without the first ``skip`` edges."""
        for start in range(skip, self.written, edge_file.CHUNK):
            count = min(edge_file.CHUNK, self.written - start)
            ends = [torch.from_numpy(np.fromfile(path, np.int32, count, offset=_BYTES * start)) for path in self._paths]
            yield ends[0], ends[1]

    def _open(self) -> None:
        for path in self._paths:
            path.touch()
            file = path.open("r+b")
            file.truncate(_BYTES * self.written)
            file.seek(_BYTES * self.written)
            self._files.append(file)
