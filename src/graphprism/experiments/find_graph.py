"""Finds a graph by name: a file, a packed data set, or a generated molecule."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from graphprism.analysis import FileGraph, read_graph
from graphprism.datasets import DATA_VARIABLE, PackedDataset, load, molecules
from graphprism.known import find_name, named_folder
from graphprism.splitting import Graph
from graphprism.testing import molecule

_MOLECULE = re.compile(r"molecule(?::(\d{1,9}))?")


def find_graph(
    name: str, data: Path | None = None, *, labels: bool = False, undirected: bool = False
) -> FileGraph | Graph:
    """The file of that name; else ``molecule`` or ``molecule:7``; else ``NAME.npz`` in the folder ``data``.

    Args:
        name: File, data set or molecule.
        data: Folder of packed data sets; default: that of the environment variable ``GRAPHPRISM_DATA``.
        labels: Whether nodes of an edge list are names even if they are numbers; default: detected.
        undirected: See `graphprism.analysis.read_graph`.

    >>> find_graph("molecule:7").num_nodes
    23
    """
    if not Path(name).exists() and (made := _MOLECULE.fullmatch(name.lower())):
        return molecule(int(made[1] or 0))
    path = Path(name)
    if path.is_dir() and not _is_dataset(name, data):
        raise ValueError(f"{name} is a folder, not a file: {import_first(name)}")
    if not path.is_file() and path.name == name and not path.suffix:
        path = dataset_file(name, data)
    return read_graph(path, labels=labels or None, undirected=undirected)


def import_first(folder: str) -> str:
    """What to do with a folder of tables, where a file or a data set is needed."""
    return f"graphprism data import {shlex.quote(folder)} --target COLUMN makes a data set of its tables first"


def _is_dataset(name: str, data: Path | None) -> bool:
    folder = named_folder(data)
    return folder is not None and (folder / f"{find_name(name, folder)}.npz").is_file()


def dataset_file(name: str, data: Path | None) -> Path:
    """``NAME.npz`` in the data folder; raises an error that lists the data sets in it."""
    folder = named_folder(data)
    if folder is None:
        raise FileNotFoundError(
            f"{name}: no such file, and no folder of datasets to look for {name}.npz in; "
            f"name it with --data or {DATA_VARIABLE}"
        )
    path = folder / f"{find_name(name, folder)}.npz"
    if not path.is_file():
        names = ", ".join(sorted(file.stem for file in folder.glob("*.npz"))) or "no datasets"
        raise FileNotFoundError(f"{name}: neither a file nor a dataset of {folder}, which holds {names}")
    return path


_GENERATED = 12_000


def zinc_or_molecules(data: Path | None) -> PackedDataset:
    """ZINC12k if its packed file is in the folder, else as many generated molecules; downloads nothing."""
    folder = named_folder(data)
    if folder is not None and (folder / "zinc12k.npz").is_file():
        return load("zinc12k", folder)
    return molecules(_GENERATED)
