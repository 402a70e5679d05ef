import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from graphprism.datasets import DATASETS, DatasetFileError, load
from tests.datasets.rewrite import rewrite
from tests.datasets.small_sets import one_graph
from tests.real_data import FOLDER, load_real, needs_data

# Nodes, edges, features, classes and the sizes of the first split.
REAL = {
    "chameleon": (2277, 36_101, 2325, 5, (1092, 729, 456), 10),
    "squirrel": (5201, 217_073, 2089, 5, (2496, 1664, 1041), 10),
    "chameleon-filtered": (890, 13_584, 2325, 5, (409, 287, 194), 10),
    "squirrel-filtered": (2223, 65_718, 2089, 5, (1053, 718, 452), 10),
    "cora": (2708, 10_556, 1433, 7, (140, 500, 1000), 1),
    "citeseer": (3327, 9_104, 3703, 6, (120, 500, 1000), 1),
    "pubmed": (19_717, 88_648, 500, 3, (60, 500, 1000), 1),
}


def write_geom_gcn(folder: Path, name: str) -> np.ndarray:
    """Four pages in the text files of Geom-GCN, with an edge there twice and a way back that is missing."""
    raw = folder / "pyg" / "WikipediaNetwork" / name / "geom_gcn" / "raw"
    raw.mkdir(parents=True)
    pages = "".join(f"{page}\t{page % 2},{1 - page % 2},0\t{page}\n" for page in range(4))
    (raw / "out1_node_feature_label.txt").write_text(f"node_id\tfeature\tlabel\n{pages}")
    (raw / "out1_graph_edges.txt").write_text("node_id\tnode_id\n3\t0\n0\t1\n3\t0\n2\t2\n1\t0\n")
    parts = np.stack([np.roll([0, 0, 1, 2], shift) for shift in range(10)])  # (S, N)
    for split, part in enumerate(parts):
        keys = ("train_mask", "val_mask", "test_mask")
        np.savez(raw / f"{name}_split_0.6_0.2_{split}.npz", **{key: (part == at) * 1 for at, key in enumerate(keys)})
    return parts


@pytest.mark.parametrize("name", ["chameleon", "squirrel"])
def test_wikipedia_by_pyg_keeps_direction_and_splits(tmp_path, monkeypatch, name):
    parts = write_geom_gcn(tmp_path, name)
    dataset = load(name, tmp_path)
    graph = dataset.graph(0)
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 2], [3, 0]]
    assert graph.x.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert graph.x.dtype == torch.float32
    assert graph.y.tolist() == [0, 1, 2, 3]
    assert [graph[key].T.tolist() for key in ("train_mask", "val_mask", "test_mask")] == [
        (parts == at).tolist() for at in range(3)
    ]
    assert (dataset.directed, dataset.level, dataset.num_outputs) == (True, "node", 5)
    # The second time the packed file is all there needs to be.
    monkeypatch.delattr(torch_geometric.datasets, "WikipediaNetwork")
    assert load(name, tmp_path).sha256 == dataset.sha256 != ""


def test_what_a_file_does_not_say_comes_from_its_name(tmp_path):
    path = rewrite(tmp_path / "chameleon.npz", one_graph(), {"about": np.array("{}")})
    dataset = load("chameleon", tmp_path)
    assert (dataset.name, dataset.level, dataset.task, dataset.metric) == (
        "chameleon",
        "node",
        "multiclass",
        "accuracy",
    )
    assert (dataset.directed, dataset.num_outputs, dataset.node_types) == (True, 5, ())
    rewrite(path, one_graph(), {"about": np.array("{}"), "y": np.array([0, 5, 1])})
    with pytest.raises(DatasetFileError, match=r"`y` must hold numbers in \[0, 5\), got 5"):
        load("chameleon", tmp_path)


def test_pyg_fails(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(torch_geometric.datasets.Planetoid, "download", fail)
    with pytest.raises(OSError, match=r"cora: PyG could not .*no network.*put cora.npz into"):
        load("cora", tmp_path)


@needs_data()
@pytest.mark.parametrize("name", REAL)
def test_real_sets(name):
    num_nodes, num_edges, num_features, num_classes, sizes, splits = REAL[name]
    dataset = load_real(name)
    graph = dataset.graph(0)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (num_nodes, num_edges, num_features)
    assert (dataset.num_outputs, int(graph.y.max()) + 1) == (num_classes, num_classes)
    assert tuple(int(graph[f"{part}_mask"][:, 0].sum()) for part in ("train", "val", "test")) == sizes
    assert graph.train_mask.shape == (num_nodes, splits)
    assert graph.is_undirected() != dataset.directed == DATASETS[name].directed
    assert (graph.x.dtype, graph.y.dtype, graph.edge_index.dtype) == (torch.float32, torch.int64, torch.int64)
    assert dataset.note == ""
    torch.testing.assert_close(dataset.normalised().graph(0).x, NormalizeFeatures()(Data(x=graph.x.clone())).x)


@needs_data("pyg/Planetoid/Cora/raw", "cora.npz")
def test_real_cora_by_pyg_is_the_packed_one(tmp_path):
    wanted_from = FOLDER / "pyg" / "Planetoid" / "Cora" / "raw"
    shutil.copytree(wanted_from, tmp_path / "pyg" / "Planetoid" / "Cora" / "raw")
    for path in (tmp_path / "pyg").rglob("*"):
        path.chmod(0o755)  # PyG writes beside them
    found, wanted = load("cora", tmp_path), load_real("cora")
    assert found.x.dtype == wanted.x.dtype == torch.uint8
    for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        one, other = found.graph(0)[key], wanted.graph(0)[key]
        assert one.dtype == other.dtype, key
        assert torch.equal(one, other), key
    assert (found.num_outputs, found.directed) == (wanted.num_outputs, wanted.directed) == (7, False)
