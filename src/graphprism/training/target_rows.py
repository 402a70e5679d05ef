"""Targets of one graph: of its nodes, or of pairs of nodes, with negative pairs drawn in every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.datasets.links import non_edges, pair_keys
from graphprism.datasets.packed_dataset import MASKS, SPLITS
from graphprism.training.optim import mixed_seed
from graphprism.training.run import Run


class TargetRows:
    """The nodes or links of a data set with their folds and targets.

    For links, every epoch of training draws as many pairs without an edge as there are edges. They depend only on seed,
    epoch and the training graph: an edge of validation or test may be drawn, since training must not know it.

    Args:
        run: The run, of which fold and seed are used.
        dataset: One graph.
        dtype: Type of targets that are not classes.
        device: Where targets and pairs are.
    """

    def __init__(self, run: Run, dataset: PackedDataset, dtype: torch.dtype, device: torch.device) -> None:
        self._run, self._dataset, self._device = run, dataset, device
        is_classes = dataset.task == "multiclass"
        y = dataset.y if is_classes else dataset.y.view(dataset.y.size(0), -1)
        self._y = y.to(device, torch.long if is_classes else dtype)
        self._pairs = None if dataset.pairs is None else dataset.pairs.long().to(device)
        self._known = _training_keys(dataset)

    def subset(self, name: str) -> Tensor:
        """Numbers of the nodes or pairs of ``"train"``, ``"val"`` or ``"test"``, on the CPU."""
        if self._pairs is not None:
            return self._dataset.subset(name).cpu()
        mask: Tensor = getattr(self._dataset, MASKS[SPLITS.index(name)])
        return mask[:, self._run.fold].nonzero().view(-1).cpu()

    def training_rows(self, epoch: int) -> Tensor:
        """Rows of an epoch of training; those of drawn pairs come after all others."""
        rows = self.subset("train")
        if self._pairs is None or self._dataset.pairs is None:
            return rows
        count, known = self._dataset.pairs.size(1), self._known
        generator = np.random.default_rng(mixed_seed("pairs", self._run.seed, epoch))
        drawn = non_edges(known, self._dataset.x.size(0), self._dataset.directed, rows.numel(), generator)
        self._pairs = torch.cat([self._pairs[:, :count], torch.from_numpy(drawn).to(self._device)], 1)
        self._y = torch.cat([self._y[:count], self._y.new_zeros(rows.numel(), 1)])
        return torch.cat([rows, torch.arange(count, count + rows.numel())])

    def targets(self, rows: Tensor) -> Tensor:
        """Targets of these nodes or pairs."""
        return self._y[rows.to(self._device)]

    def nodes(self, rows: Tensor) -> Tensor:
        """The nodes themselves, (B,), or both ends of the pairs, (2, B)."""
        rows = rows.to(self._device)
        return rows if self._pairs is None else self._pairs[:, rows]

    def read(self, states: Tensor, at: Tensor) -> Tensor:
        """Outputs of nodes or pairs from one row per node; ``at`` is a result of `nodes`.

        Shapes: (N, T) -> (B, T) for nodes, (N, F) -> (B, 1) for pairs
        """
        return states[at] if at.dim() == 1 else score_pairs(states, at, self._dataset.directed)


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


def _training_keys(dataset: PackedDataset) -> Any:
    """The pairs that are edges in training, sorted, for links."""
    if dataset.level != "link":
        return np.zeros(0, np.int64)
    return np.unique(pair_keys(dataset.edge_index.cpu().numpy(), dataset.x.size(0), dataset.directed))
