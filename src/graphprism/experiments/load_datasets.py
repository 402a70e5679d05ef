"""The data sets that runs need, as far as they are there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from graphprism.datasets import PackedDataset, data_folder, load


def load_datasets(
    names: Iterable[str], data: Path | None, fetch: bool = True
) -> tuple[dict[str, PackedDataset], dict[str, str]]:
    """Loads data sets by name, each once; gives those that are there, and for the others why they are not.

    Args:
        names: What `graphprism.datasets.load` takes.
        data: Folder of data sets.
        fetch: Whether a set that is not there may be downloaded; where not, it is among neither.

    Raises:
        OSError: None of them is there.
        DatasetFileError: A file is damaged.
    """
    found: dict[str, PackedDataset] = {}
    missing: dict[str, OSError] = {}
    for name in dict.fromkeys(names):
        if not fetch and name != "molecules" and not (data_folder(data) / f"{name}.npz").is_file():
            continue
        try:
            found[name] = load(name, data)
        except OSError as error:
            missing[name] = error
    if missing and not found:
        raise next(iter(missing.values()))
    return found, {name: str(error) for name, error in missing.items()}
