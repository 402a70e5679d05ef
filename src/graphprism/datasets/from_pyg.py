"""Data sets by the loaders of PyTorch Geometric, which download them."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path

import torch
import torch_geometric.datasets
from torch import Tensor
from torch_geometric.data import Data

from graphprism.datasets.known import DATASETS, KnownDataset
from graphprism.datasets.pack_nodes import pack_nodes
from graphprism.datasets.packed_dataset import MASKS, SPLITS, PackedDataset

_FAILURES = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)


def from_pyg(name: str, folder: Path) -> PackedDataset:
    """Loads a known data set with PyG, which keeps its own files under ``folder / "pyg"``, and packs it.

    Unlike a packed file, PyG's files are unpickled: they may execute what is in them.

    Raises:
        OSError: PyG could not fetch or read its files.
    """
    known = DATASETS[name]
    root = folder / "pyg" / known.loader
    # The public split of a citation graph is an argument too, so nodes have theirs among the arguments.
    splits = [{"split": split} for split in SPLITS] if known.level == "graph" else [{}]
    try:
        loader = getattr(torch_geometric.datasets, known.loader)
        loaded = [loader(root=str(root), **split, **known.arguments) for split in splits]
    except _FAILURES as error:
        raise OSError(
            f"{name}: PyG could not fetch it or read its files ({error}); put {name}.npz into {folder}, "
            f"or PyG's raw files into {root}, or try again with a network"
        ) from error
    if known.level == "node":
        return _pack_graph_of_nodes(name, known, loaded[0][0])
    sizes = torch.tensor([len(graphs) for graphs in loaded])
    split = torch.arange(len(SPLITS)).repeat_interleave(sizes)
    return pack_graphs(name, known, [data for graphs in loaded for data in graphs], split)


def _pack_graph_of_nodes(name: str, known: KnownDataset, data: Data) -> PackedDataset:
    # PyG gives a single split as one column without its dimension.
    train_mask, val_mask, test_mask = (data[key].view(data.num_nodes, -1) for key in MASKS)
    return pack_nodes(name, known, data.x, data.edge_index, data.y, (train_mask, val_mask, test_mask))


def pack_graphs(name: str, known: KnownDataset, graphs: Iterable[Data], split: Tensor) -> PackedDataset:
    """Puts graphs with ``x``, ``edge_index``, ``edge_attr`` and one ``y`` each behind one another."""
    graphs = list(graphs)
    num_nodes = torch.tensor([data.num_nodes for data in graphs])
    num_edges = torch.tensor([data.num_edges for data in graphs])
    return PackedDataset(
        name=name,
        level="graph",
        task=known.task,
        metric=known.metric,
        x=torch.cat([data.x for data in graphs]),
        edge_index=torch.cat([data.edge_index for data in graphs], dim=1),
        # PyG gives a single type per edge as one number, packed files have columns.
        edge_attr=torch.cat([data.edge_attr.view(data.num_edges, -1) for data in graphs if data.num_edges]),
        y=torch.cat([data.y.view(1, -1) for data in graphs]),
        node_ptr=torch.cat([num_nodes.new_zeros(1), num_nodes.cumsum(0)]),
        edge_ptr=torch.cat([num_edges.new_zeros(1), num_edges.cumsum(0)]),
        split=split,
        node_types=known.node_types,
        edge_types=known.edge_types,
    )
