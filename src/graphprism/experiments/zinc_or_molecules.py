"""A batch of real molecules where they are there, else of generated ones."""

from __future__ import annotations

from pathlib import Path

from graphprism.datasets import PackedDataset, load, molecules, named_folder

_GENERATED = 12_000


def zinc_or_molecules(data: Path | None) -> PackedDataset:
    """ZINC12k if its packed file is in the folder, else as many generated molecules; nothing is fetched."""
    folder = named_folder(data)
    if folder is not None and (folder / "zinc12k.npz").is_file():
        return load("zinc12k", folder)
    return molecules(_GENERATED)
