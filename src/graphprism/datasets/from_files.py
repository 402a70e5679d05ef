"""Data sets from users' files: a folder of CSV or Parquet tables, GraphML, arrays, or a data set of PyG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from graphprism._checks import check_choice, check_path
from graphprism.datasets.from_data import PYG_PREFIX, TASK_NAMES, from_data, from_pyg_class
from graphprism.datasets.from_tables import from_tables
from graphprism.datasets.graph_tables import read_tables
from graphprism.datasets.import_options import ImportOptions, refuse
from graphprism.datasets.packed_dataset import MASKS, PackedDataset
from graphprism.datasets.packed_file import DatasetFileError, read
from graphprism.known import data_folder
from graphprism.packed import open_arrays


def from_files(
    path: str | os.PathLike[str],
    target: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    root: str | Path | None = None,
    **options: Any,
) -> PackedDataset:
    r"""Reads graphs with targets from files.

    Args:
        path: A folder with tables of edges and of nodes (CSV or Parquet), and of graphs where graphs have targets; a
            GraphML file; an ``.npz`` file, packed or with arrays ``edge_index``, ``x`` and ``y``; or a data set of PyG
            such as ``pyg:TUDataset(NCI1)``.
        target: The target column, or several; not needed for ``task="link"`` or if there is an array ``y``.
        name: Name of the data set; by default that of the folder or file.
        root: Folder of data sets, where PyG stores its downloads.
        options: See `ImportOptions`.

    Returns:
        The data set; ``preprocessing["notices"]`` lists what was left out, imputed or drawn.

    Raises:
        ValueError: The files do not hold such a graph.
        OSError: They cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for file, text in (("nodes.csv", "id,age,sick\na,3,no\nb,4,yes\nc,5,no\nd,9,yes\ne,1,no\n"),
    ...                        ("edges.csv", "source,target\na,b\nb,c\n")):
    ...         _ = Path(folder, file).write_text(text)
    ...     from_files(folder, "sick", name="people", shares=(0.6, 0.2, 0.2))
    PackedDataset('people', 1 graph, node binary by auroc)
    """
    check_path("path", path)
    targets = (target,) if isinstance(target, str) else tuple(target or ())
    chosen = ImportOptions(target=targets, **options)
    check_choice("task", chosen.task, (None, *TASK_NAMES))
    if str(path).startswith(PYG_PREFIX):
        return _from_pyg(str(path), name, data_folder(root), chosen)
    file = Path(path)
    title = name or file.name.partition(".")[0] or "data"
    if file.suffix == ".npz":
        return _from_npz(file, title, chosen)
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such folder or file")
    return from_tables(read_tables(file, chosen.files), title, chosen)


# Options that only tables of columns have a use for.
_OF_TABLES = ("files", "columns", "categories", "numbers", "positive")


def _in_memory_options(options: ImportOptions) -> dict[str, Any]:
    names = ("task", "metric", "directed", "shares", "folds", "seed", "scale_target")
    return {each: getattr(options, each) for each in names}


def _from_pyg(text: str, name: str | None, folder: Path, options: ImportOptions) -> PackedDataset:
    refuse(options, (*_OF_TABLES, "drop", "target"), "a data set of PyG, which has no tables")
    return from_pyg_class(text, folder, **({"name": name} if name else {}), **_in_memory_options(options))


def _from_npz(file: Path, name: str, options: ImportOptions) -> PackedDataset:
    """Reads a packed file, or plain arrays as one graph."""
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file")
    try:
        inputs = ("x", "edge_index", "edge_attr", "edge_weight", "num_nodes")
        arrays = open_arrays(file, ("about", *inputs, "y", *options.target, *MASKS))
    except ValueError as error:
        raise DatasetFileError(file, str(error)) from error
    if "about" in arrays or "edge_index" not in arrays:
        packed = [each.name for each in fields(ImportOptions)]
        refuse(options, packed, f"{file.name}, a packed data set, which has its own target, task and folds")
        return replace(read(file), name=name)
    refuse(options, _OF_TABLES, f"{file.name}, which has arrays and no tables")
    for each in options.drop:
        if each not in arrays or each == "edge_index":
            there = ", ".join(sorted(arrays.keys() - {"edge_index", *options.target}))
            raise ValueError(f"`drop` must name arrays of {file.name} that may be absent ({there}), got {each!r}")
        del arrays[each]
    if options.target and options.target[0] in arrays:
        arrays["y"] = arrays[options.target[0]]
    given = arrays.pop("num_nodes", None)
    tensors: dict[str, Any] = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in arrays.items()}
    if "x" not in tensors:
        tensors["num_nodes"] = int(arrays["edge_index"].max(initial=-1)) + 1 if given is None else int(given)
    return from_data(Data(**tensors), name=name, **_in_memory_options(options))
