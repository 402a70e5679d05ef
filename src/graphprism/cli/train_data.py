"""The data set of ``graphprism train``."""

from __future__ import annotations

from pathlib import Path

from graphprism.cli.suggest import suggest
from graphprism.datasets import DATASETS, PackedDataset, data_folder, load


def train_data(name: str, root: Path | None) -> PackedDataset:
    """The data set of this name, which must be one of graphs.

    Raises:
        ValueError: There is no such name, or its targets are of nodes.
    """
    folder = data_folder(root)
    known = sorted({*DATASETS, *(file.stem for file in folder.glob("*.npz"))})
    if name not in known and not name.endswith(".npz"):
        raise ValueError(f"{name}: no data set of that name in or for {folder}{suggest(name, known)}")
    dataset = load(name, root)
    if dataset.level != "graph":
        raise ValueError(
            f"{name} has a target for each node, and `graphprism train` takes sets with one for each graph; "
            "`graphprism reproduce directed` and `homophilic`, or `graphprism.training.train_nodes`, train on nodes"
        )
    return dataset
