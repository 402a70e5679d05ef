"""The five splits of a set whose classes are years."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from graphprism.datasets.raw.random_splits import random_splits
from graphprism.datasets.raw.read_splits import read_splits
from graphprism.packed import Array

_COUNT = 5
_DRAWN = "The splits are not the published ones but drawn at random, half, a quarter and a quarter: {file} was missing."


def year_splits(name: str, folder: Path, labels: Array) -> tuple[tuple[Tensor, Tensor, Tensor], str]:
    """Masks (N, S) from ``NAME-splits.npz`` or ``NAME-splits.npy``, else drawn; with a note where they are drawn.

    Raises:
        ValueError: A split names a node that has no class.
    """
    files = [folder / f"{name}-splits{ending}" for ending in (".npz", ".npy")]
    there = [file for file in files if file.is_file()]
    labelled = labels >= 0
    masks = read_splits(there[0], len(labels)) if there else random_splits(labelled, _COUNT)
    if there and any(bool(mask[~labelled].any()) for mask in masks):
        raise ValueError(f"{there[0]}: the splits must name nodes that have a class")
    train_mask, val_mask, test_mask = (torch.from_numpy(mask) for mask in masks)
    return (train_mask, val_mask, test_mask), "" if there else _DRAWN.format(file=files[-1].name)
