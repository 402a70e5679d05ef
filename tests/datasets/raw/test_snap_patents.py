import sys

import numpy as np
import pytest
import torch

from graphprism.datasets import DatasetFileError, load
from graphprism.datasets.raw import snap_patents
from tests.datasets.raw.raw_node_files import (
    EDGES,
    YEARS,
    features,
    masks,
    split_dictionaries,
    write_object_array,
    write_patents,
)

pytest.importorskip("scipy", reason="reads .mat files by scipy")


@pytest.fixture
def raw(tmp_path):
    return tmp_path / "raw" / "snap-patents"


def test_everything_as_in_the_file(tmp_path, raw, monkeypatch):
    # Three rows at a time, so that ten rows are made dense in several steps and a rest.
    monkeypatch.setattr(sys.modules[snap_patents.__module__], "_CHUNK", 3)
    write_patents(raw)
    write_object_array(raw / "snap-patents-splits.npy", split_dictionaries())
    dataset = load("snap-patents", tmp_path)
    graph = dataset.graph(0)
    assert torch.equal(graph.x, torch.from_numpy(features() * (features(1) > 0)))
    assert dataset.x.dtype == torch.float32
    assert graph.edge_index.T.tolist() == EDGES.tolist()
    assert graph.y.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [graph[f"{part}_mask"].T.tolist() for part in ("train", "val", "test")] == masks(5).tolist()
    assert (dataset.directed, dataset.num_outputs) == (True, 5)


@pytest.mark.parametrize(("number", "dtype"), [(255, torch.uint8), (256, torch.float32), (-1, torch.float32)])
def test_small_whole_numbers_take_a_byte(tmp_path, raw, number, dtype):
    dense = np.zeros((10, 3))
    dense[2, 1], dense[9, 0] = number, 1
    write_patents(raw, dense)
    dataset = load("snap-patents", tmp_path)
    assert dataset.x.dtype == dtype
    assert dataset.graph(0).x.tolist() == dense.tolist()


def test_patents_without_a_year_are_in_no_split(tmp_path, raw):
    years = YEARS.astype(float)
    years[[0, 7]] = np.nan
    write_patents(raw, years=years[None])
    dataset = load("snap-patents", tmp_path)
    graph = dataset.graph(0)
    assert "2 patents have no year and no split." in dataset.note
    assert not (graph.train_mask | graph.val_mask | graph.test_mask)[[0, 7]].any()
    assert (graph.train_mask | graph.val_mask | graph.test_mask).sum(0).tolist() == [8] * 5
    (tmp_path / "snap-patents.npz").unlink()
    write_object_array(raw / "snap-patents-splits.npy", split_dictionaries())
    with pytest.raises(ValueError, match=r"snap-patents-splits.npy: the splits must name nodes that have a class"):
        load("snap-patents", tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"years": None}, "`years` is missing"),
        ({"years": None, "num_nodes": None}, "`num_nodes, years` is missing"),
        ({"years": YEARS[None, :9]}, "`years` must be that of 10 patents, got 9"),
        ({"num_nodes": np.array([[11]])}, "`node_feat` must be that of 11 patents, got 10"),
        ({"edge_index": EDGES}, r"`edge_index` must have shape \[2, E\], got \[7, 2\]"),
        ({"node_feat": features()}, "`node_feat` must be sparse"),
    ],
)
def test_bad_file(tmp_path, raw, changed, message):
    node_feat = changed.pop("node_feat", None)
    path = write_patents(raw, **changed)
    if node_feat is not None:
        content = {"edge_index": EDGES.T, "node_feat": node_feat, "num_nodes": 10, "years": YEARS}
        __import__("scipy.io").io.savemat(path, content)
    with pytest.raises(DatasetFileError, match=message):
        load("snap-patents", tmp_path)
    assert not (tmp_path / "snap-patents.npz").exists()


def test_damaged_file(tmp_path, raw):
    whole = write_patents(raw).read_bytes()
    for content in (b"", b"\x89HDF\r\n\x1a\n" + bytes(600), whole[:400]):
        (raw / "snap_patents.mat").write_bytes(content)
        with pytest.raises(DatasetFileError, match=r"it is no whole .mat file of version 5|is missing"):
            load("snap-patents", tmp_path)


def test_missing_file_and_missing_scipy(tmp_path, raw, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"put snap_patents.mat into .*snap-patents .*https://drive.google.com"):
        load("snap-patents", tmp_path)
    write_patents(raw)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r'needs scipy: pip install "graphprism\[experiments\]"'):
        load("snap-patents", tmp_path)


def test_a_file_that_ends_the_process_of_scipy(tmp_path, raw, monkeypatch):
    write_patents(raw)
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    monkeypatch.setattr(sys.modules[snap_patents.__module__], "_LOAD", crash)
    with pytest.raises(DatasetFileError, match=r"it is no whole \.mat file of version 5 \(reading it ends the process"):
        load("snap-patents", tmp_path)


def test_features_that_point_beyond_the_matrix(tmp_path, raw):
    from scipy.io import loadmat, savemat
    from scipy.sparse import csc_matrix

    matrix = csc_matrix(features().astype(np.float64))
    matrix.indices[0] = 1 << 20
    content = {**loadmat(write_patents(raw)), "node_feat": matrix}
    savemat(raw / "snap_patents.mat", {key: value for key, value in content.items() if not key.startswith("__")})
    with pytest.raises(DatasetFileError, match="`node_feat` must be a whole sparse matrix"):
        snap_patents("snap-patents", raw)
