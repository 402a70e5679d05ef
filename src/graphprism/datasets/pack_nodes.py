"""One graph whose nodes have classes, as a packed data set."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.datasets.known import KnownDataset
from graphprism.datasets.packed_dataset import PackedDataset


def pack_nodes(
    name: str,
    known: KnownDataset,
    x: Tensor,
    edge_index: Tensor,
    y: Tensor,
    masks: tuple[Tensor, Tensor, Tensor],
    note: str = "",
) -> PackedDataset:
    """Packs a graph with features (N, F), edges (2, E), classes (N,) and three masks (N, S) for training and so on.

    Features that are small whole numbers are kept as such, a quarter of their size.
    """
    train_mask, val_mask, test_mask = (mask.bool() for mask in masks)
    return PackedDataset(
        name=name,
        level="node",
        task=known.task,
        metric=known.metric,
        x=_small(x),
        edge_index=edge_index,
        y=y,
        node_ptr=torch.tensor([0, x.size(0)]),
        edge_ptr=torch.tensor([0, edge_index.size(1)]),
        train_mask=train_mask,
        val_mask=val_mask,
        test_mask=test_mask,
        directed=known.directed,
        num_classes=known.num_classes,
        note=note,
    )


def _small(x: Tensor) -> Tensor:
    if not x.is_floating_point() or x.numel() == 0:
        return x
    # Slices: a copy of all features at once would be the largest thing in memory.
    whole = all(bool(torch.equal(part, part.clamp(0, 255).floor())) for part in x.split(1 << 16))
    return x.to(torch.uint8) if whole else x.float()
