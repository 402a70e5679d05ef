"""Data sets from the raw files that the loaders of PyTorch Geometric download."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch_geometric.datasets
from torch import Tensor
from torch_geometric.data import Data

from graphprism.datasets.known import DATASETS, KnownDataset
from graphprism.datasets.pack_nodes import pack_nodes
from graphprism.datasets.packed_dataset import MASKS, SPLITS, PackedDataset
from graphprism.datasets.raw.molecule_files import peptides, zinc
from graphprism.datasets.raw.planetoid import planetoid

_FAILURES = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)


def from_pyg(name: str, folder: Path) -> PackedDataset:
    """Packs a known data set from the raw files that PyG downloads, which lie under ``folder / "pyg"``.

    PyG only fetches: it would unpickle its files, which may execute what is in them. They are read here without calling
    anything that they name, and what PyG has processed before is not looked at.

    Raises:
        OSError: PyG could not fetch its files.
        DatasetFileError: A file is damaged, or holds anything but numbers.
    """
    known = DATASETS[name]
    root = folder / "pyg" / known.loader
    try:
        fetched = _fetch(known, root)
        if known.loader == "WikipediaNetwork":  # text and plain arrays, which PyG reads without executing anything
            fetched.process()
    except _FAILURES as error:
        raise OSError(
            f"{name}: PyG could not fetch it or read its files ({error}); put {name}.npz into {folder}, "
            f"or PyG's raw files into {root}, or try again with a network"
        ) from error
    raw = Path(fetched.raw_dir)
    if known.loader == "WikipediaNetwork":
        return _pack_graph_of_nodes(name, known, fetched.kept[0])
    if known.loader == "Planetoid":
        return _pack_graph_of_nodes(name, known, planetoid(raw, known.arguments["name"].lower()))
    if known.loader == "ZINC":
        loaded = [zinc(raw, split, subset=known.arguments["subset"]) for split in SPLITS]
    else:
        loaded = [peptides(raw, split) for split in SPLITS]
    split = torch.arange(len(SPLITS)).repeat_interleave(torch.tensor([len(graphs) for graphs in loaded]))
    return pack_graphs(name, known, [data for graphs in loaded for data in graphs], split)


def _fetch(known: KnownDataset, root: Path) -> Any:
    """PyG's data set with its raw files in place, and nothing of them read."""
    loader = getattr(torch_geometric.datasets, known.loader)

    def keep(self: Any, data_list: list[Data], _: str) -> None:
        self.kept = data_list

    # `_process` also unpickles two files beside the processed ones, if they are there.
    steps = {"_process": lambda self: None, "load": lambda self, path: None, "save": keep}
    return type(known.loader, (loader,), steps)(root=str(root), **known.arguments)


def _pack_graph_of_nodes(name: str, known: KnownDataset, data: Data) -> PackedDataset:
    # A single split is one column without its dimension.
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
