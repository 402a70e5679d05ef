"""Two data sets small enough to write down: three graphs with targets, and one graph with classes of nodes."""

import torch

from graphprism.datasets import PackedDataset


def three_graphs() -> PackedDataset:
    return PackedDataset(
        name="three",
        level="graph",
        task="regression",
        metric="mae",
        x=torch.tensor([[0], [1], [2], [0], [27], [3]]),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_attr=torch.tensor([[1], [1], [3], [3]]),
        y=torch.tensor([[0.5], [-1.0], [2.0]]),
        node_ptr=torch.tensor([0, 2, 5, 6]),
        edge_ptr=torch.tensor([0, 2, 4, 4]),
        split=torch.tensor([0, 2, 1]),
        node_types=(28,),
        edge_types=(4,),
        note="Written by hand.",
    )


def one_graph() -> PackedDataset:
    mask = torch.eye(3, dtype=torch.bool)
    return PackedDataset(
        name="one",
        level="node",
        task="multiclass",
        metric="accuracy",
        x=torch.tensor([[0.5, 1.0], [0.0, 2.0], [3.0, 0.0]]),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.tensor([0, 2, 1]),
        node_ptr=torch.tensor([0, 3]),
        edge_ptr=torch.tensor([0, 2]),
        train_mask=mask[:, :2],
        val_mask=mask[:, [1, 2]],
        test_mask=mask[:, [2, 0]],
        directed=True,
        # What reading such a set adds.
        note="A class has no training node in 2 of 2 splits, first class 1 in split 0.",
    )
