"""Packed files that hold something else than they should."""

import json
from pathlib import Path

import numpy as np

from graphprism.datasets import PackedDataset, save


def members(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def rewrite(path: Path, dataset: PackedDataset, arrays: dict[str, np.ndarray | None], **about: object) -> Path:
    """Writes a set with other arrays (None removes one) and other fields of ``about``.

    Without the checksum, which would find every change before any other check does.
    """
    save(dataset, path)
    whole = members(path)
    said = {**json.loads(str(whole["about"])), **about}
    del said["sha256"]
    changed = {**whole, "about": np.array(json.dumps(said)), **arrays}
    np.savez(path, **{key: array for key, array in changed.items() if array is not None})
    return path
