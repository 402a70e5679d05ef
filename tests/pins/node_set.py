"""A small directed graph whose classes can be learnt, with three folds."""

import numpy as np
import torch

from graphprism.datasets import PackedDataset

NODES, EDGES, CLASSES, FEATURES, FOLDS = 48, 192, 3, 7, 3


def node_set() -> PackedDataset:
    """Features hint at the class of a node, and most edges stay within a class."""
    random = np.random.default_rng(0)
    y = np.arange(NODES) % CLASSES
    x = random.random((NODES, FEATURES)) + 2 * np.eye(FEATURES)[y]
    source, other = random.integers(NODES, size=(2, EDGES))
    same = (other // CLASSES * CLASSES + y[source]).clip(max=NODES - 1)
    target = np.where(random.random(EDGES) < 0.7, same, other)
    part = np.stack([random.permutation(NODES) % 4 for _ in range(FOLDS)], axis=1)
    return PackedDataset(
        name="small",
        level="node",
        task="multiclass",
        metric="accuracy",
        x=torch.from_numpy(x.astype(np.float32)),
        edge_index=torch.from_numpy(np.stack([source, target])),
        y=torch.from_numpy(y),
        node_ptr=torch.tensor([0, NODES]),
        edge_ptr=torch.tensor([0, EDGES]),
        train_mask=torch.from_numpy(part <= 1),
        val_mask=torch.from_numpy(part == 2),
        test_mask=torch.from_numpy(part == 3),
        directed=True,
    )
