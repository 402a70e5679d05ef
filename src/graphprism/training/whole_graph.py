"""Nodes or links of one graph for the eager engine, where every step takes the whole graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn import BASELINES
from graphprism.training.node_data import NodeData
from graphprism.training.run import Run
from graphprism.training.target_rows import TargetRows


@dataclass(frozen=True, eq=False)
class WholeGraphBatch:
    """The whole graph, and the nodes or pairs whose targets count.

    Attributes:
        inputs: What the network is called with.
        y: Targets of these nodes or pairs.
        rows: All of them.
        total: Their number.
        at: (B,) nodes, or (2, B) pairs of nodes.
        data: Reads outputs.
    """

    inputs: dict[str, Any]
    y: Tensor
    rows: slice
    total: int
    at: Tensor
    data: TargetRows

    def read(self, states: Tensor) -> Tensor:
        """Outputs for the nodes or pairs, from one row per node."""
        return self.data.read(states, self.at)


class WholeGraph(TargetRows):
    """The nodes or links of a data set, prepared once; the counterpart of `PreparedDataset` for a single graph.

    Args:
        run: The run.
        dataset: One graph.
        device: Where the graph will be.
        lowest: The smallest feature of training, for new data; see `graphprism.datasets.row_normalise`.
    """

    def __init__(
        self, run: Run, dataset: PackedDataset, device: torch.device | str = "cpu", lowest: float | None = None
    ) -> None:
        self._data = NodeData.prepare(run, dataset, torch.device(device), lowest)
        # a baseline takes what its `prepare` returned, under the name that all baselines have for it
        self._graph = "graph" if run.model in BASELINES else "edge_index"
        super().__init__(run, dataset, self._data.x.dtype, torch.device(device))

    def batches(self, rows: Tensor, batch_size: int, rank: int = 0, ranks: int = 1) -> Iterator[WholeGraphBatch]:
        """One batch with all of these rows."""
        yield WholeGraphBatch(
            inputs={"x": self._data.x, self._graph: self._data.adj},
            y=self.targets(rows),
            rows=slice(0, rows.numel()),
            total=rows.numel(),
            at=self.nodes(rows),
            data=self,
        )
