"""Data sets from the files in which their authors publish them."""

from __future__ import annotations

from pathlib import Path

from graphprism.datasets.packed_dataset import PackedDataset
from graphprism.datasets.raw import arxiv_year, heterophilous, snap_patents


def from_raw(name: str, folder: Path) -> PackedDataset:
    """Loads a known data set from its raw files, which lie in ``folder / "raw" / name``, and packs it.

    The five splits of Arxiv-Year and Snap-Patents are read from ``NAME-splits.npz`` or ``NAME-splits.npy`` there; see
    `graphprism.datasets.raw.read_splits`. Without them splits are drawn, and the note of the set says so.

    Raises:
        FileNotFoundError: A raw file is not there; the message says where it is published and where to put it.
        DatasetFileError: A raw file is damaged.
    """
    load = {"arxiv-year": arxiv_year, "snap-patents": snap_patents}.get(name, heterophilous)
    return load(name, folder / "raw" / name)
