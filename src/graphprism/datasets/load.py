"""A data set by name or by file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from graphprism.datasets.from_pyg import from_pyg
from graphprism.datasets.from_raw import from_raw
from graphprism.datasets.known import DATASETS
from graphprism.datasets.molecules import molecules
from graphprism.datasets.packed_dataset import PackedDataset
from graphprism.datasets.packed_file import read, save

DATA_VARIABLE = "GRAPHPRISM_DATA"


def load(name: str | Path, root: str | Path | None = None) -> PackedDataset:
    """Gives a data set with its splits, task, metric and numbers of types.

    ``molecules`` is generated. Any other name is read from ``NAME.npz`` in the folder of data sets; one of `DATASETS`
    that is not there is fetched by PyG's loader, or made from its raw files, and packed into that folder, once. A path
    to an ``.npz`` file is read as it is. Task, metric and types come from the file, and where it leaves them out from
    its name in `DATASETS`.

    Args:
        name: A name of `DATASETS`, of a file in the folder, or a path that ends in ``.npz``.
        root: The folder; without it the one that ``GRAPHPRISM_DATA`` names, else ``graphprism`` in the user's cache.

    Raises:
        FileNotFoundError: There is no such data set, or no such raw file.
        DatasetFileError: The file is damaged.
        OSError: PyG could not fetch it.

    >>> load("molecules").subset("train").numel()
    10000
    """
    if name == "molecules":
        return molecules()
    if str(name).endswith(".npz"):
        return read(name, _defaults(Path(name).stem))
    return read(packed_path(str(name), root), _defaults(str(name)))


def packed_path(name: str, root: str | Path | None = None) -> Path:
    """The packed file of a name, made first where there is none."""
    folder = data_folder(root)
    path = folder / f"{name}.npz"
    if path.is_file():
        return path
    if name not in DATASETS:
        there = sorted({*DATASETS, *(file.stem for file in folder.glob("*.npz"))})
        raise FileNotFoundError(f"{name}: no data set of that name; there are {', '.join(there)}, in or for {folder}")
    save(_make(name, folder), path)
    return path


def _make(name: str, folder: Path) -> PackedDataset:
    if name == "molecules":
        return molecules()
    return from_raw(name, folder) if DATASETS[name].files else from_pyg(name, folder)


def data_folder(root: str | Path | None = None) -> Path:
    """``root``, else the folder that the environment names, else the user's cache."""
    named = named_folder(root)
    if named is not None:
        return named
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphprism"


def named_folder(root: str | Path | None = None) -> Path | None:
    """``root``, else the folder that the environment names, else None."""
    named = root or os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def _defaults(name: str) -> dict[str, Any]:
    """What a file of a known name may leave out of ``about``."""
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
