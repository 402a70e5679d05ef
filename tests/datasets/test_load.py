import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch_geometric.datasets
from torch_geometric.datasets import ZINC

from graphprism.datasets import DATA_VARIABLE, DATASETS, DatasetFileError, data_folder, load, molecules, read, save
from graphprism.known import find_name
from tests.datasets.raw_files import SIZES, write_peptides, write_zinc
from tests.datasets.small_sets import one_graph, three_graphs
from tests.real_data import FOLDER, load_real, needs_data


@pytest.fixture
def no_pyg(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("PyG was asked for a set that is packed")

    for name in ("ZINC", "LRGBDataset"):
        monkeypatch.setattr(torch_geometric.datasets, name, refuse)


@pytest.mark.usefixtures("no_pyg")
def test_packed_file_comes_first(tmp_path, monkeypatch):
    save(three_graphs(), tmp_path / "zinc12k.npz")
    assert load("zinc12k", tmp_path).name == "three"
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert load("zinc12k").name == "three"


@pytest.mark.usefixtures("no_pyg")
def test_own_file_by_path_and_by_name(tmp_path):
    save(one_graph(), tmp_path / "mine.npz")
    assert load(tmp_path / "mine.npz").level == "node"
    assert load(str(tmp_path / "mine.npz")).level == "node"
    assert load("mine", tmp_path).level == "node"


@pytest.mark.usefixtures("no_pyg")
def test_damaged_file_is_named_and_not_fetched_again(tmp_path):
    (tmp_path / "zinc12k.npz").write_bytes(b"PK half")
    with pytest.raises(DatasetFileError, match=r"zinc12k.npz: the .npz file is damaged"):
        load("zinc12k", tmp_path)


def test_unknown_name_says_what_there_is(tmp_path):
    save(one_graph(), tmp_path / "mine.npz")
    with pytest.raises(FileNotFoundError, match=r"zinc13k: no data set of that name; .* cora, mine, molecules, "):
        load("zinc13k", tmp_path)


def test_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "named"
    monkeypatch.delenv(DATA_VARIABLE)
    assert data_folder() == tmp_path / "cache" / "graphprism"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache" / "graphprism"


@pytest.mark.parametrize(("name", "extra"), [("zinc12k", 0), ("zinc", 1)])
def test_zinc_by_pyg(tmp_path, monkeypatch, name, extra):
    write_zinc(tmp_path)
    dataset = load(name, tmp_path)
    assert [dataset.subset(split).numel() for split in SIZES] == [size + extra for size in SIZES.values()]
    assert (dataset.name, dataset.task, dataset.metric) == (name, "regression", "mae")
    assert (dataset.num_node_types, dataset.num_edge_types) == (28, 4)
    for split in SIZES:
        graphs = ZINC(str(tmp_path / "pyg" / "ZINC"), subset=name == "zinc12k", split=split)
        assert len(graphs) == dataset.subset(split).numel()
        for wanted, index in zip(graphs, dataset.subset(split).tolist(), strict=True):
            found = dataset.graph(index)
            assert torch.equal(found.x, wanted.x)
            assert torch.equal(found.edge_index, wanted.edge_index)
            assert torch.equal(found.edge_attr[:, 0], wanted.edge_attr)
            assert torch.equal(found.y[0], wanted.y)
    # The second time the packed file is all there needs to be.
    monkeypatch.delattr(torch_geometric.datasets, "ZINC")
    shutil.rmtree(tmp_path / "pyg")
    assert load(name, tmp_path).sha256 == dataset.sha256 != ""


@pytest.mark.parametrize(("name", "targets", "task"), [("func", 10, "multilabel"), ("struct", 11, "regression")])
def test_peptides_by_pyg(tmp_path, name, targets, task):
    write_peptides(tmp_path, f"peptides-{name}", targets)
    dataset = load(f"peptides-{name}", tmp_path)
    assert [dataset.subset(split).numel() for split in SIZES] == list(SIZES.values())
    assert (dataset.task, dataset.num_outputs, dataset.num_node_types) == (task, targets, None)
    assert (len(dataset.node_types), len(dataset.edge_types)) == (9, 3)
    assert dataset.graph(0).edge_attr.shape == (2, 3)


@pytest.mark.parametrize("error", [OSError("no network"), RuntimeError("half a file"), zipfile.BadZipFile("cut off")])
def test_pyg_fails(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(torch_geometric.datasets.LRGBDataset, "download", fail)
    with pytest.raises(OSError, match=rf"peptides-func: PyG could not .*{error}.*put peptides-func.npz into") as caught:
        load("peptides-func", tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert not list(tmp_path.rglob("*.*"))


def test_a_packed_file_alone_is_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"molhiv: put molhiv.npz into .*; its graphs are published at https"):
        load("molhiv", tmp_path)


def test_molecules_need_no_folder(tmp_path):
    dataset = load("molecules", tmp_path / "none")
    assert [dataset.subset(split).numel() for split in SIZES] == [10_000, 1_000, 1_000]
    assert float(dataset.y.std()) == pytest.approx(1, abs=0.01)
    assert not (tmp_path / "none").exists()


def test_every_known_set_has_a_loader_of_pyg_or_raw_files():
    graphs = ["molecules", "zinc12k", "zinc", "peptides-func", "peptides-struct", "molhiv"]
    assert [name for name, known in DATASETS.items() if known.level == "graph"] == graphs
    for name, known in DATASETS.items():
        if name == "molhiv":  # as a packed file alone
            assert (known.loader, known.files) == ("", ())
            continue
        assert name == "molecules" or bool(known.files) != hasattr(torch_geometric.datasets, known.loader or "none")
        assert bool(known.files) == bool(known.address)


@needs_data()
@pytest.mark.parametrize(
    ("name", "splits", "outputs"),
    [
        ("zinc12k", [10_000, 1_000, 1_000], 1),
        ("zinc", [220_011, 24_445, 5_000], 1),
        ("peptides-func", [10_873, 2_331, 2_331], 10),
        ("molhiv", [32_901, 4_113, 4_113], 1),
    ],
)
def test_real_sets_of_graphs(name, splits, outputs):
    dataset = load_real(name)
    assert [dataset.subset(split).numel() for split in ("train", "val", "test")] == splits
    assert dataset.num_outputs == outputs
    assert dataset.node_types == DATASETS[name].node_types
    assert dataset.edge_types == DATASETS[name].edge_types
    batch = dataset.batch(dataset.subset("val")[:50])
    assert batch.num_graphs == 50
    assert int(batch.edge_index.max()) < batch.num_nodes


@needs_data()
def test_real_files_of_known_sets_survive_a_round_trip(tmp_path):
    for path in sorted(path for path in FOLDER.glob("*.npz") if path.stem in DATASETS):
        dataset = load(path)
        # the large ones take long to compress
        if dataset.edge_index.size(1) < 100_000 and dataset.x.numel() < 10_000_000:
            save(dataset, tmp_path / "again.npz")
            again = read(tmp_path / "again.npz")
            for key in ("x", "edge_index", "y", "node_ptr", "edge_ptr"):
                assert torch.equal(getattr(again, key).double(), getattr(dataset, key).double()), (path, key)


@pytest.mark.slow
@needs_data("pyg/ZINC/raw", "zinc12k.npz")
def test_real_zinc_by_pyg_is_the_packed_one(tmp_path):
    shutil.copytree(FOLDER / "pyg" / "ZINC" / "raw", tmp_path / "pyg" / "ZINC" / "raw")
    for path in (tmp_path / "pyg").rglob("*"):
        path.chmod(0o755)  # PyG writes beside them
    found, wanted = load("zinc12k", tmp_path), load_real("zinc12k")
    for split in ("val", "test"):
        ours, theirs = found.batch(found.subset(split)), wanted.batch(wanted.subset(split))
        for key in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
            assert torch.equal(ours[key], theirs[key]), (split, key)
    assert len(found.subset("train")) == 10_000


def test_case_of_names_does_not_count(tmp_path):
    save(replace(molecules(20), name="own"), tmp_path / "Mine.npz")
    assert len(load("mINE", tmp_path)) == 20
    assert find_name("Molecules", tmp_path) == "molecules"
    assert find_name("ZINC12K", tmp_path) == "zinc12k"
    assert find_name("Mine", tmp_path) == "Mine"  # as it is spelt, where it is there
    assert find_name("unknown", tmp_path) == "unknown"
