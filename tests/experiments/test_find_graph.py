import numpy as np
import pytest

from graphprism.datasets import DATA_VARIABLE
from graphprism.experiments.find_graph import find_graph
from graphprism.testing import molecule


@pytest.fixture(autouse=True)
def no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sets").mkdir()
    np.savez(tmp_path / "sets" / "tiny.npz", edge_index=np.array([[0, 1], [1, 0]]), x=np.ones((2, 1)))
    return tmp_path / "sets"


def test_file(tmp_path):
    (tmp_path / "a.txt").write_text("0 1\n1 2\n")
    assert find_graph("a.txt").edge_index.tolist() == [[0, 1], [1, 2]]
    assert find_graph("a.txt", undirected=True).edge_index.size(1) == 4


def test_names_of_nodes(tmp_path):
    (tmp_path / "a.txt").write_text("x y\n")
    assert find_graph("a.txt", labels=True).labels == ("x", "y")


@pytest.mark.parametrize(("name", "seed"), [("molecule", 0), ("molecule:7", 7)])
def test_molecule(name, seed):
    assert find_graph(name).edge_index.equal(molecule(seed).edge_index)


def test_file_wins_over_molecule(tmp_path):
    (tmp_path / "molecule").write_text("0 1\n")
    assert find_graph("molecule").num_nodes == 2


def test_dataset_by_folder_and_by_environment(folder, monkeypatch):
    assert find_graph("tiny", folder).num_nodes == 2
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    assert find_graph("tiny").num_nodes == 2


def test_missing_file_and_missing_dataset(folder):
    with pytest.raises(FileNotFoundError, match=r"b\.csv: there is no such file"):
        find_graph("b.csv", folder)
    with pytest.raises(FileNotFoundError, match=r"huge: neither a file nor a dataset of .*sets, which holds tiny"):
        find_graph("huge", folder)
    with pytest.raises(FileNotFoundError, match="name it with --data or GRAPHPRISM_DATA"):
        find_graph("huge")
    with pytest.raises(FileNotFoundError, match="which holds no datasets"):
        find_graph("huge", folder / "nowhere")
