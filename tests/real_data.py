"""Real data sets, for tests that need them: packed files in the folder that ``GRAPHPRISM_DATA`` names."""

import os
from pathlib import Path

import pytest

from graphprism.datasets import DATA_VARIABLE, PackedDataset, load

FOLDER = Path(os.environ.get(DATA_VARIABLE) or "no folder is named")


def needs_data(*names: str) -> pytest.MarkDecorator:
    """Skips a test unless the folder is there and has these files or folders."""
    missing = [name for name in ("", *names) if not (FOLDER / name).exists()]
    reason = f"needs the folder of data sets in {DATA_VARIABLE}" + (f", with {', '.join(names)}" if names else "")
    return pytest.mark.skipif(bool(missing), reason=reason)


def load_real(name: str) -> PackedDataset:
    """A packed file of the folder; a test of a set that the folder does not have is skipped, and nothing is fetched."""
    if not (FOLDER / f"{name}.npz").is_file():
        pytest.skip(f"needs {name}.npz in the folder that {DATA_VARIABLE} names")
    return load(name, FOLDER)
