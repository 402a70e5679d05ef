"""Nodes or links of one graph for the eager engine: every step takes the whole graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.datasets.links import non_edges, pair_keys
from graphprism.datasets.packed_dataset import MASKS, SPLITS
from graphprism.training.node_data import NodeData
from graphprism.training.optim import mixed_seed
from graphprism.training.run import Run


@dataclass(frozen=True, eq=False)
class WholeGraphBatch:
    """The whole graph, and the nodes or pairs whose targets count.

    Attributes:
        inputs: What the network is called with.
        y: Targets of these nodes or pairs.
        rows: All of them.
        total: Their number.
        at: (B,) nodes, or (2, B) pairs of nodes.
        directed: Whether a pair has a direction.
    """

    inputs: dict[str, Any]
    y: Tensor
    rows: slice
    total: int
    at: Tensor
    directed: bool

    def read(self, states: Tensor) -> Tensor:
        """Outputs for the nodes or pairs, of one row per node.

        Shapes: (N, T) -> (B, T) for nodes, (N, F) -> (B, 1) for pairs
        """
        return states[self.at] if self.at.dim() == 1 else score_pairs(states, self.at, self.directed)


def score_pairs(states: Tensor, pairs: Tensor, directed: bool) -> Tensor:
    """Logits of edges: the inner product of both ends; of directed edges that of one half with the other.

    Shapes: ``states`` (N, F), ``pairs`` (2, B) -> (B, 1)

    >>> score_pairs(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0], [1]]), directed=False).tolist()
    [[11.0]]
    """
    source, target = states[pairs[0]], states[pairs[1]]
    if directed:
        half = states.size(1) // 2
        source, target = source[:, :half], target[:, half : 2 * half]
    return (source * target).sum(-1, keepdim=True)


class WholeGraph:
    """The nodes or links of a data set, prepared once; what `graphprism.training.prepared_data` is for graphs.

    Pairs without an edge are drawn anew for every epoch of training, as many as there are edges, from seed and epoch
    alone and from the training graph alone: an edge of validation or test may be drawn, since training knows of none.

    Args:
        run: The run; its split, its features and its fold count.
        dataset: One graph.
        device: Where the graph will be.
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device | str = "cpu") -> None:
        self.dataset, self._run, self._device = dataset, run, torch.device(device)
        self._data = NodeData.prepare(run, dataset, self._device)
        dtype = self._data.x.dtype
        y = dataset.y if dataset.task == "multiclass" else dataset.y.view(dataset.y.size(0), -1)
        self._y = y.to(self._device, torch.long if dataset.task == "multiclass" else dtype)
        self._pairs = None if dataset.pairs is None else dataset.pairs.long().to(self._device)
        self._known = _training_keys(dataset)

    def subset(self, name: str) -> Tensor:
        """Numbers of the nodes or pairs of ``"train"``, ``"val"`` or ``"test"``, on the CPU."""
        if self._pairs is not None:
            return self.dataset.subset(name).cpu()
        mask: Tensor = getattr(self.dataset, MASKS[SPLITS.index(name)])
        return mask[:, self._run.fold].nonzero().view(-1).cpu()

    def training_rows(self, epoch: int) -> Tensor:
        """Rows of an epoch of training; those of drawn pairs come after all others."""
        rows = self.subset("train")
        if self._pairs is None or self.dataset.pairs is None:
            return rows
        count, known = self.dataset.pairs.size(1), self._known
        generator = np.random.default_rng(mixed_seed("pairs", self._run.seed, epoch))
        drawn = non_edges(known, self.dataset.x.size(0), self.dataset.directed, rows.numel(), generator)
        self._pairs = torch.cat([self._pairs[:, :count], torch.from_numpy(drawn).to(self._device)], 1)
        self._y = torch.cat([self._y[:count], self._y.new_zeros(rows.numel(), 1)])
        return torch.cat([rows, torch.arange(count, count + rows.numel())])

    def targets(self, rows: Tensor) -> Tensor:
        """Targets of these nodes or pairs, on the device."""
        return self._y[rows.to(self._device)]

    def batches(self, rows: Tensor, batch_size: int, rank: int = 0, ranks: int = 1) -> Iterator[WholeGraphBatch]:
        """One batch with all of these rows."""
        at = rows.to(self._device)
        yield WholeGraphBatch(
            inputs={"x": self._data.x, "edge_index": self._data.adj},
            y=self._y[at],
            rows=slice(0, rows.numel()),
            total=rows.numel(),
            at=at if self._pairs is None else self._pairs[:, at],
            directed=self.dataset.directed,
        )


def _training_keys(dataset: PackedDataset) -> Any:
    """The pairs that are edges in training, sorted, for links."""
    if dataset.level != "link":
        return np.zeros(0, np.int64)
    return np.unique(pair_keys(dataset.edge_index.cpu().numpy(), dataset.x.size(0), dataset.directed))
