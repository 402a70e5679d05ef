import os
import pickle
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import DatasetFileError, load
from graphprism.datasets.raw.torch_file import parse_pickle
from tests.datasets.raw.planetoid_files import OTHERS, TEST, TRAIN, dumps, write_planetoid
from tests.real_data import FOLDER, load_real, needs_data

KEYS = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")


class Touch:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def by_pyg(folder: Path, name: str) -> dict[str, torch.Tensor]:
    pytest.importorskip("scipy", reason="PyG reads the matrices by scipy")
    return torch_geometric.datasets.Planetoid(str(folder / "pyg" / "Planetoid"), name)[0]


def same(dataset, wanted) -> None:
    graph = dataset.graph(0)
    for key in KEYS:
        found = graph[key][:, 0] if key.endswith("mask") else graph[key]
        assert found.dtype == wanted[key].dtype, key
        assert torch.equal(found, wanted[key]), key


@pytest.mark.filterwarnings("ignore:.*scipy.sparse.csr.*:DeprecationWarning")
@pytest.mark.parametrize(("name", "skip"), [("Cora", 0), ("CiteSeer", 0), ("CiteSeer", 3)])
def test_planetoid_is_that_of_pyg(tmp_path, name, skip):
    write_planetoid(tmp_path, name, skip)
    dataset = load(name.lower(), tmp_path)
    assert not (tmp_path / "pyg" / "Planetoid" / name / "processed").exists()
    assert dataset.x.size(0) == OTHERS + TEST + skip
    assert int(dataset.train_mask.sum()) == TRAIN
    same(dataset, by_pyg(tmp_path, name))


@pytest.mark.filterwarnings("ignore:.*scipy.sparse.csr.*:DeprecationWarning")
@needs_data("pyg/Planetoid/Cora/raw", "cora.npz")
def test_planetoid_of_the_real_files_is_that_of_pyg_and_the_packed_one(tmp_path):
    raw = tmp_path / "pyg" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    for file in (FOLDER / "pyg" / "Planetoid" / "Cora" / "raw").iterdir():
        shutil.copyfile(file, raw / file.name)
    dataset, packed = load("cora", tmp_path), load_real("cora").graph(0)
    for key in KEYS:
        assert torch.equal(dataset.graph(0)[key], packed[key]), key
    same(dataset, by_pyg(tmp_path, "Cora"))


@pytest.mark.parametrize("file", ["x", "y", "tx", "allx", "ally", "ty", "graph"])
def test_planetoid_calls_nothing(tmp_path, file):
    raw, made = write_planetoid(tmp_path), tmp_path / "made"
    path = raw / f"ind.cora.{file}"
    path.write_bytes(pickle.dumps(Touch(made), protocol=2))
    run = CliRunner().invoke(app, ["data", "pack", "cora", "--data", str(tmp_path)])
    assert run.exit_code == 2
    assert not made.exists()
    assert run.stderr.startswith(f"error: {path}: the file is damaged or holds more than arrays (it asks for ")
    assert run.stderr.count("\n") == 1
    with pytest.raises(DatasetFileError):
        load("cora", tmp_path)
    with path.open("rb") as content:
        pickle.load(content)
    assert made.exists(), "the file does not do what the test needs it to"


def test_files_that_pyg_processed_are_not_opened(tmp_path):
    write_planetoid(tmp_path)
    made, processed = tmp_path / "made", tmp_path / "pyg" / "Planetoid" / "Cora" / "processed"
    processed.mkdir()
    for name in ("data.pt", "pre_transform.pt", "pre_filter.pt"):
        torch.save(Touch(made), processed / name)
    assert load("cora", tmp_path).num_outputs == 7
    assert not made.exists()


def matrix(rows, columns=11):
    return dumps(np.ones((rows, columns), np.float32))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("tx", matrix(TEST + 1), r"it must have shape \[9, 11\], got \[10, 11\]"),
        ("tx", matrix(TEST, 10), r"it must have shape \[9, 11\], got \[9, 10\]"),
        ("ally", matrix(OTHERS - 1, 3), "classes of 520 documents, got 519"),
        ("ty", matrix(TEST, 4), r"it must have shape \[9, 3\], got \[9, 4\]"),
        ("allx", matrix(OTHERS), r"ind\.cora\.x: it must hold the first 6 documents of ind\.cora\.allx"),
        ("x", matrix(TRAIN), r"ind\.cora\.x: it must hold the first 6 documents of ind\.cora\.allx"),
        ("y", matrix(TRAIN - 1, 3), r"ind\.cora\.x: it must hold the first 5 documents"),
        ("allx", dumps(np.ones(3)), "it must hold a matrix"),
        ("allx", dumps([1]), "it must hold a matrix"),
        ("graph", dumps([[1], [0]]), "neighbours of each document"),
        ("graph", dumps({0: [1.5]}), "neighbours must be lists"),
        ("graph", dumps({0: [600], 600: [0]}), r"documents in \[0, 529\)"),
        ("graph", dumps({0: [1]}), "must hold the way back of every edge"),
        ("test.index", b"520\n520\n", "each test document"),
        ("test.index", b"520\n9999999\n", "each test document"),
        ("test.index", b"3\n", "each test document"),
        ("test.index", b"a\n", "numbers of documents"),
        ("test.index", b"", "numbers of documents"),
    ],
)
def test_planetoid_files_that_do_not_belong_together(tmp_path, file, content, message):
    (write_planetoid(tmp_path) / f"ind.cora.{file}").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load("cora", tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cora.npz").exists()


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("file", ["allx", "ally", "graph"])
def test_planetoid_files_that_were_cut_off(tmp_path, file, kept):
    path = write_planetoid(tmp_path) / f"ind.cora.{file}"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(DatasetFileError, match="the file is damaged"):
        load("cora", tmp_path)


def test_dictionary_of_lists_with_a_default():
    assert parse_pickle(pickle.dumps(defaultdict(list, {0: [1], 1: [0, 2]}), protocol=2)) == {0: [1], 1: [0, 2]}


@pytest.mark.parametrize(
    "changed",
    [
        {"indptr": np.array([0, 1])},
        {"indptr": np.array([0, 5, 2])},
        {"indptr": np.array([0, -1, 2])},
        {"indptr": np.array([0.0, 1.0, 2.0])},
        {"indices": np.array([0, 2])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([0])},
        {"shape": (2, 1 << 40)},
    ],
)
def test_sparse_matrices_that_are_none(changed):
    from graphprism.datasets.raw.pickled_numbers import SparseRows

    parts = {"shape": (2, 2), "indptr": np.array([0, 1, 2]), "indices": np.array([0, 1]), "data": np.array([3.0, 4.0])}
    assert SparseRows(**parts).dense(4).tolist() == [[3, 0], [0, 4]]
    with pytest.raises(ValueError, match="matrix"):
        SparseRows(**{**parts, **changed}).dense(1000)
