"""Arxiv-Year from the files of ogbn-arxiv."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism._files import Gunzip
from graphprism.datasets.packed_dataset import PackedDataset, pack_nodes
from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.raw_file import quantile_labels, random_splits, raw_file, read_splits
from graphprism.known import DATASETS
from graphprism.packed import Array

_COUNT = 5
_DRAWN = "The splits are not the published ones but drawn at random, half, a quarter and a quarter: {file} was missing."


def year_splits(name: str, folder: Path, labels: Array) -> tuple[tuple[Tensor, Tensor, Tensor], str]:
    """Masks (N, S) of folds from ``NAME-splits.npz`` or ``NAME-splits.npy``; else drawn, with a note that says so.

    Raises:
        ValueError: A fold holds a node without a class.
    """
    files = [folder / f"{name}-splits{ending}" for ending in (".npz", ".npy")]
    there = [file for file in files if file.is_file()]
    labelled = labels >= 0
    masks = read_splits(there[0], len(labels)) if there else random_splits(labelled, _COUNT)
    if there and any(bool(mask[~labelled].any()) for mask in masks):
        raise ValueError(f"{there[0]}: the splits must name nodes that have a class")
    train_mask, val_mask, test_mask = (torch.from_numpy(mask) for mask in masks)
    return (train_mask, val_mask, test_mask), "" if there else _DRAWN.format(file=files[-1].name)


def arxiv_year(name: str, folder: Path) -> PackedDataset:
    """Reads papers, citations (citing to cited) and years of OGB, and bins the years into five classes.

    Raises:
        FileNotFoundError: A file of OGB is missing.
        DatasetFileError: A file is damaged, or files have inconsistent sizes.
    """
    known = DATASETS[name]
    # Check that all exist before reading the first, which takes a while.
    edges, features, years, sizes = (raw_file(name, folder, file) for file in known.files)
    num_nodes = int(_table(sizes, 1, np.int64)[0, 0])
    x = _table(features, None, np.float32, num_nodes)
    year = _table(years, 1, np.int64, num_nodes)[:, 0]
    edge_index = _table(edges, 2, np.int64).T
    labels = quantile_labels(year, known.num_classes)
    masks, note = year_splits(name, folder, labels)
    return pack_nodes(
        name,
        known,
        torch.from_numpy(x),
        torch.from_numpy(np.ascontiguousarray(edge_index)),
        torch.from_numpy(labels),
        masks,
        note,
    )


def _table(path: Path, columns: int | None, dtype: Any, rows: int | None = None) -> Array:
    """Reads a .csv.gz file of numbers without a header, and checks its shape."""
    try:
        with path.open("rb") as file, io.TextIOWrapper(io.BufferedReader(Gunzip(file)), "ascii") as text:
            table = np.loadtxt(text, dtype, delimiter=",", ndmin=2)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DatasetFileError(path, f"it is no whole table of numbers ({error})") from error
    if len(table) == 0 or table.shape[1] != (columns or table.shape[1]) or len(table) != (rows or len(table)):
        wanted = f"{rows or 'some'} rows of {columns or 'some'} numbers"
        raise DatasetFileError(path, f"it must hold {wanted}, got {len(table)} of {table.shape[1]}")
    return table
