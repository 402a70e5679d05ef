import networkx as nx
import pytest
import torch
from torch_geometric.utils import contains_isolated_nodes, contains_self_loops, is_undirected

from graphprism.testing import graph_zoo, molecule, molecules, random_graph

ZOO = graph_zoo()


def test_the_zoo_holds_what_its_names_say():
    assert ZOO["no-nodes"].num_nodes == 0
    assert ZOO["no-edges"].edge_index.size(1) == ZOO["one-node"].edge_index.size(1) == 0
    assert contains_self_loops(ZOO["self-loops"].edge_index)
    assert ZOO["multi-edges"].edge_index.unique(dim=1).size(1) < ZOO["multi-edges"].edge_index.size(1)
    assert torch.bincount(ZOO["hub"].edge_index[0]).max() == 39
    assert contains_isolated_nodes(ZOO["disconnected"].edge_index, ZOO["disconnected"].num_nodes)
    assert not is_undirected(ZOO["directed"].edge_index)
    assert torch.bincount(ZOO["regular"].edge_index[0]).unique().tolist() == [2]


@pytest.mark.parametrize("seed", range(20))
def test_molecules_are_connected_with_rings_and_few_neighbours(seed):
    graph = molecule(seed, num_nodes=30)
    assert is_undirected(graph.edge_index)
    assert not contains_self_loops(graph.edge_index)
    network = nx.Graph(graph.edge_index.t().tolist())
    assert nx.is_connected(network)
    assert network.number_of_nodes() == 30
    assert max(dict(network.degree).values()) <= 4
    assert {len(ring) for ring in nx.cycle_basis(network)} <= {5, 6}
    assert graph.x.shape == (30, 1)
    assert graph.x.min() >= 0
    assert graph.x.max() < 28


def test_the_same_seed_gives_the_same_molecules():
    first, again, other = molecules(3, seed=1), molecules(3, seed=1), molecules(3, seed=2)
    assert all(a.edge_index.equal(b.edge_index) and a.x.equal(b.x) for a, b in zip(first, again, strict=True))
    assert not all(a.edge_index.equal(b.edge_index) for a, b in zip(first, other, strict=True))
    assert random_graph(5, 9, 1).edge_index.equal(random_graph(5, 9, 1).edge_index)
