"""The contents of packed files."""

import hashlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphprism.datasets import molecules, read, save
from tests.pins.node_set import node_set
from tests.pins.pinned import as_json, differences, pinned


def graph_set():
    """Molecules with targets in eighths: their last bits are those of the cosine of the machine."""
    dataset = molecules(12)
    return replace(dataset, y=(8 * dataset.y).round() / 8)


DATASETS = {"graphs": graph_set, "nodes": node_set}


def measure():
    with tempfile.TemporaryDirectory() as folder:
        return {name: contents(make(), Path(folder) / f"{name}.npz") for name, make in DATASETS.items()}


def contents(dataset, path):
    """Names, types, shapes and hashes of arrays, in their order: compressed bytes differ between versions of zlib."""
    save(dataset, path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays.pop("about")))
    hashes = {name: hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for name, each in arrays.items()}
    assert read(path).sha256 == about["sha256"]
    return {
        "about": about,
        "arrays": [[name, each.dtype.str, list(each.shape), hashes[name]] for name, each in arrays.items()],
    }


def test_packed_file_has_the_same_contents():
    assert differences(as_json(measure()), pinned("packed")) == []
