"""Where a raw file has to lie."""

from __future__ import annotations

from pathlib import Path

from graphprism.datasets.known import DATASETS


def raw_file(name: str, folder: Path, file: str) -> Path:
    """The path of a raw file of a known set.

    Raises:
        FileNotFoundError: It is not there; the message says where it is published and where to put it.
    """
    path = folder / file
    if not path.is_file():
        raise FileNotFoundError(
            f"{name}: {path} is missing; put {file} into {folder} (it is published at {DATASETS[name].address}), "
            f"or {name}.npz beside the other packed files"
        )
    return path
