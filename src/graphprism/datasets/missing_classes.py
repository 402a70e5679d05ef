"""Classes that a split never shows in training."""

from __future__ import annotations

import torch

from graphprism.datasets.packed_dataset import PackedDataset


def missing_classes(dataset: PackedDataset) -> str:
    """A sentence about the first class without a training node, or nothing; only for classes of nodes.

    Such a set is in order, and a model for it still needs an output for that class, but no model can learn it.
    """
    if dataset.level != "node" or dataset.task != "multiclass" or dataset.train_mask is None:
        return ""
    shown = torch.zeros(dataset.num_outputs, dataset.train_mask.size(1), dtype=torch.bool)
    for column, mask in enumerate(dataset.train_mask.T):
        shown[dataset.y[mask].long(), column] = True
    there = dataset.y.long().bincount(minlength=len(shown)) > 0
    missing = (~shown & there[:, None]).T.nonzero()
    if not len(missing):
        return ""
    splits, (first, label) = missing[:, 0].unique().numel(), missing[0].tolist()
    return f"A class has no training node in {splits} of {shown.size(1)} splits, first class {label} in split {first}."
