"""A data set by name or by file."""

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

from graphprism._checks import check_choice, check_path
from graphprism._text import suggest
from graphprism.datasets.molecules import molecules
from graphprism.datasets.packed_dataset import MASKS, SPLITS, PackedDataset, pack_nodes
from graphprism.datasets.packed_file import read, save
from graphprism.datasets.raw import arxiv_year, heterophilous, snap_patents
from graphprism.datasets.raw.molecule_files import peptides, zinc
from graphprism.datasets.raw.planetoid import planetoid
from graphprism.known import DATASETS, KnownDataset, data_folder, find_name


def from_raw(name: str, folder: Path) -> PackedDataset:
    """Loads a known data set from its raw files in ``folder / "raw" / name``, and packs it.

    The five folds of Arxiv-Year and Snap-Patents are read from ``NAME-splits.npz`` or ``NAME-splits.npy`` there; see
    `graphprism.datasets.raw.read_splits`. Without these files folds are drawn, and the note of the set says so.

    Raises:
        FileNotFoundError: A raw file is missing; the message says where to download it and where to put it.
        DatasetFileError: A raw file is damaged.
    """
    check_choice("name", name, [each for each, known in DATASETS.items() if known.files])
    check_path("folder", folder)
    load = {"arxiv-year": arxiv_year, "snap-patents": snap_patents}.get(name, heterophilous)
    return load(name, folder / "raw" / name)


_FAILURES = (OSError, EOFError, RuntimeError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)


def from_pyg(name: str, folder: Path) -> PackedDataset:
    """Packs a known data set from the raw files that PyG downloads to ``folder / "pyg"``.

    PyG only downloads: it would unpickle the files, which can execute code. They are read here without executing
    anything, and files processed by PyG are ignored.

    Raises:
        OSError: PyG could not download its files.
        DatasetFileError: A file is damaged, or holds anything but numbers.
    """
    check_choice("name", name, DATASETS)
    check_path("folder", folder)
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
    elif known.loader == "LRGBDataset":
        loaded = [peptides(raw, split) for split in SPLITS]
    else:
        raise NotImplementedError(f"{name}: raw files of {known.loader} are not read yet; see `from_pyg`")
    split = torch.arange(len(SPLITS)).repeat_interleave(torch.tensor([len(graphs) for graphs in loaded]))
    return pack_graphs(name, known, [data for graphs in loaded for data in graphs], split)


def _fetch(known: KnownDataset, root: Path) -> Any:
    """PyG's data set with its raw files downloaded but not read."""
    loader = getattr(torch_geometric.datasets, known.loader)

    def keep(self: Any, data_list: list[Data], _: str) -> None:
        self.kept = data_list

    # `_process` would also unpickle two files beside the processed ones.
    steps = {"_process": lambda self: None, "load": lambda self, path: None, "save": keep}
    return type(known.loader, (loader,), steps)(root=str(root), **known.arguments)


def _pack_graph_of_nodes(name: str, known: KnownDataset, data: Data) -> PackedDataset:
    # A single fold comes as a vector.
    train_mask, val_mask, test_mask = (data[key].view(data.num_nodes, -1) for key in MASKS)
    return pack_nodes(name, known, data.x, data.edge_index, data.y, (train_mask, val_mask, test_mask))


def pack_graphs(name: str, known: KnownDataset, graphs: Iterable[Data], split: Tensor) -> PackedDataset:
    """Concatenates graphs with ``x``, ``edge_index``, ``edge_attr`` and one ``y`` each."""
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
        # PyG stores a single type per edge as a vector, packed files as a column.
        edge_attr=torch.cat([data.edge_attr.view(data.num_edges, -1) for data in graphs if data.num_edges]),
        y=torch.cat([data.y.view(1, -1) for data in graphs]),
        node_ptr=torch.cat([num_nodes.new_zeros(1), num_nodes.cumsum(0)]),
        edge_ptr=torch.cat([num_edges.new_zeros(1), num_edges.cumsum(0)]),
        split=split,
        node_types=known.node_types,
        edge_types=known.edge_types,
    )


def load(name: str | Path, root: str | Path | None = None) -> PackedDataset:
    """Loads a data set with its folds, task, metric and numbers of types.

    ``molecules`` is generated. Any other name, ignoring case, is read from ``NAME.npz`` in the folder of data sets. A
    name of `DATASETS` without such a file is downloaded by PyG, or read from its raw files, and packed into that folder
    once. A path to an ``.npz`` file is read directly. Task, metric and types come from the file or, if it lacks them,
    from `DATASETS`.

    Args:
        name: A name of `DATASETS`, of a file in the folder, or a path that ends in ``.npz``.
        root: The folder; by default that of ``GRAPHPRISM_DATA``, else ``graphprism`` in the user's cache.

    Raises:
        FileNotFoundError: There is no such data set, or no such raw file.
        DatasetFileError: The file is damaged.
        OSError: PyG could not download it.

    >>> load("molecules")  # doctest: +SKIP
    PackedDataset('molecules', 12000 graphs, graph regression by mae)
    """
    check_path("name", name)
    if str(name).endswith(".npz"):
        return read(name, _defaults(Path(name).stem))
    name = find_name(str(name), data_folder(root))
    return molecules() if name == "molecules" else read(packed_path(name, root), _defaults(name))


def packed_path(name: str, root: str | Path | None = None) -> Path:
    """The packed file of a data set, created if it is missing."""
    check_path("name", name)
    folder = data_folder(root)
    name = find_name(name, folder)
    path = folder / f"{name}.npz"
    if path.is_file():
        return path
    if name not in DATASETS:
        there = sorted({*DATASETS, *(file.stem for file in folder.glob("*.npz"))})
        names = f"{suggest(name, there)}; there are {', '.join(there)}"
        raise FileNotFoundError(f"{name}: no data set of that name{names}, in or for {folder}")
    save(_make(name, folder), path)
    return path


def _make(name: str, folder: Path) -> PackedDataset:
    if name == "molecules":
        return molecules()
    known = DATASETS[name]
    if not known.files and not known.loader:
        raise FileNotFoundError(f"{name}: put {name}.npz into {folder}; its graphs are published at {known.address}")
    return from_raw(name, folder) if known.files else from_pyg(name, folder)


def _defaults(name: str) -> dict[str, Any]:
    """Fields of ``about`` that a file of a known name may lack."""
    known = DATASETS.get(name)
    if known is None:
        return {}
    return {
        "level": known.level,
        "task": known.task,
        "metric": known.metric,
        "directed": known.directed,
        **({"num_node_types": known.node_types, "num_edge_types": known.edge_types} if known.node_types else {}),
        **({"num_classes": known.num_classes} if known.num_classes else {}),
    }
