from pathlib import Path

import numpy as np
import pytest
import torch

from graphprism.analysis import FileGraph
from graphprism.experiments.tables.figure_2 import graphs_by_seed, largest_component, single_graphs
from tests.real_data import FOLDER, needs_data


def pack(path: Path, **arrays) -> None:
    np.savez(path, **{key: np.array(value) for key, value in arrays.items()})


@pytest.fixture
def folder(tmp_path):
    """Three molecules: a bond, a single atom, and a path of three."""
    pack(
        tmp_path / "zinc12k.npz",
        x=[[0], [1], [2], [3], [4], [27]],
        edge_index=[[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]],
        num_nodes=[2, 1, 3],
        num_edges=[2, 0, 4],
    )
    return tmp_path


def test_each_seed_draws_its_molecule(folder):
    graphs, numbers = graphs_by_seed("zinc", 30, folder)
    assert set(numbers) == {0, 1, 2}
    assert [graph.num_nodes for graph in graphs] == [(2, 1, 3)[number] for number in numbers]
    path = graphs[numbers.index(2)]
    assert path.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert path.x.argmax(dim=1).tolist() == [3, 4, 27]
    assert path.x.dtype == torch.float64
    assert path.x.shape == (3, 28)


def test_fewer_seeds_are_the_first_of_more(folder):
    assert graphs_by_seed("zinc", 30, folder)[1][:7] == graphs_by_seed("zinc", 7, folder)[1]


def test_molecules_need_no_data():
    graphs, numbers = graphs_by_seed("molecules", 4, None)
    assert numbers == [0, 1, 2, 3]
    assert all(graph.x.shape == (graph.num_nodes, 28) for graph in graphs)


def test_type_out_of_range_is_named(tmp_path):
    pack(tmp_path / "zinc12k.npz", x=[[28]], edge_index=np.zeros((2, 0), int), num_nodes=[1], num_edges=[0])
    with pytest.raises(ValueError, match=r"`x` must hold numbers in \[0, 28\), got 28"):
        graphs_by_seed("zinc", 1, tmp_path)


@pytest.mark.parametrize("source", ["zinc", "cora"])
def test_graph_without_features_is_named(tmp_path, source):
    name = {"zinc": "zinc12k", "cora": "cora"}[source]
    pack(tmp_path / f"{name}.npz", edge_index=[[0], [1]], num_nodes=[2], num_edges=[1])
    with pytest.raises(ValueError, match="must have nodes with features"):
        graphs_by_seed(source, 1, tmp_path)


def test_largest_component_by_hand():
    edges = torch.tensor([[0, 5, 4, 2], [1, 4, 2, 2]])  # 0-1, and 5-4-2 with a loop; 3 and 6 alone
    part = largest_component(FileGraph(edges, 7, x=torch.arange(7.0)[:, None]))
    assert part.num_nodes == 3
    assert part.x.flatten().tolist() == [2, 4, 5]
    assert part.edge_index.tolist() == [[2, 1, 0], [1, 0, 0]]


def test_largest_component_of_a_long_path_numbered_at_random():
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    edges = torch.cat([torch.stack([order[:199], order[1:200]]), torch.stack([order[200:-1], order[201:]])], dim=1)
    part = largest_component(FileGraph(edges, 300, x=torch.arange(300.0)[:, None]))
    assert sorted(part.x.flatten().long().tolist()) == sorted(order[:200].tolist())


def test_largest_component_of_nothing():
    with pytest.raises(ValueError, match="must have nodes"):
        largest_component(FileGraph(torch.empty(2, 0, dtype=torch.long), 0))


def test_single_graph_of_a_file_with_one():
    (graph,) = single_graphs(FileGraph(torch.tensor([[0], [1]]), 2, x=torch.ones(2, 3)), [0])
    assert (graph.num_nodes, graph.edge_index.tolist()) == (2, [[0], [1]])


@needs_data("zinc12k.npz")
def test_real_molecules():
    graphs, numbers = graphs_by_seed("zinc", 50, FOLDER)
    assert max(numbers) < 12_000
    assert len(set(numbers)) > 45
    assert all(9 <= graph.num_nodes <= 38 for graph in graphs)
    assert all(int(torch.bincount(graph.edge_index[0]).max()) <= 4 for graph in graphs)


@needs_data("cora.npz")
def test_real_cora():
    (cora, *_), _ = graphs_by_seed("cora", 2, FOLDER)
    assert (cora.num_nodes, cora.edge_index.size(1), cora.x.size(1)) == (2485, 10138, 1433)
