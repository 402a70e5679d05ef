"""Splits drawn at random, where the published ones are not at hand."""

from __future__ import annotations

import numpy as np

from graphprism.packed import Array


def random_splits(labelled: Array, count: int) -> tuple[Array, Array, Array]:
    """Half of the labelled nodes for training, a quarter each for validation and test: (N,) -> three masks (N, count).

    Split number s is drawn from seed s and from nothing else.
    """
    nodes = np.flatnonzero(labelled)
    ends = [len(nodes) // 2, len(nodes) // 2 + len(nodes) // 4]
    masks = np.zeros((3, len(labelled), count), bool)
    for column in range(count):
        parts = np.split(np.random.default_rng(column).permutation(nodes), ends)
        for mask, part in zip(masks, parts, strict=True):
            mask[part, column] = True
    train_mask, val_mask, test_mask = masks
    return train_mask, val_mask, test_mask
