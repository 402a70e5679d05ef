"""Orderings against networkx and PyTorch Geometric."""

import sys

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.nn import APPNP

from graphprism.splitting import Graph, orderings

from ..zoo import SYMMETRIC, directed, graphs

many = settings(max_examples=150, deadline=None, derandomize=True)


def simple(graph):
    under = nx.Graph()
    under.add_nodes_from(range(graph.num_nodes))
    under.add_edges_from((a, b) for a, b in graph.edge_index.t().tolist() if a != b)
    return under


def by_node(values, graph):
    return [values[node] for node in range(graph.num_nodes)]


def large_graph():
    under = nx.gnm_random_graph(300, 3000, seed=1)
    under.add_edges_from((0, node) for node in range(1, 200))
    return directed(list(under.edges), 300)


@many
@given(graph=graphs())
def test_core_is_that_of_networkx(graph):
    assert orderings.core(graph).tolist() == by_node(nx.core_number(simple(graph)), graph)


@many
@given(graph=graphs())
def test_triangles_are_those_of_networkx(graph):
    assert orderings.triangles(graph).tolist() == by_node(nx.triangles(simple(graph)), graph)


def test_large_graph_is_that_of_networkx():
    graph = large_graph()
    assert orderings.core(graph).tolist() == by_node(nx.core_number(simple(graph)), graph)
    assert orderings.triangles(graph).tolist() == by_node(nx.triangles(simple(graph)), graph)


@pytest.mark.parametrize("paths_per_chunk", [7, 1000])
def test_triangles_in_many_chunks(monkeypatch, paths_per_chunk):
    expected = orderings.triangles(large_graph()).tolist()
    # Not by its dotted name: there, `triangles` is the function.
    module = sys.modules[orderings.triangles.__module__]
    monkeypatch.setattr(module, "_PATHS_PER_CHUNK", paths_per_chunk)
    assert orderings.triangles(large_graph()).tolist() == expected


@many
@given(graph=graphs())
def test_bfs_is_that_of_networkx(graph):
    if graph.num_nodes == 0:
        return
    under = nx.DiGraph(graph.edge_index.t().tolist())
    under.add_nodes_from(range(graph.num_nodes))
    reached = nx.single_source_shortest_path_length(under, 0)
    expected = [reached.get(node, graph.num_nodes) for node in range(graph.num_nodes)]
    assert orderings.bfs(graph, root=0).tolist() == expected


def caterpillar():
    """Hubs of rising degree on a path, and a clique at its end: fronts that are small, large and small again."""
    leaves = [(hub, 100 + 40 * hub + leaf) for hub in range(20) for leaf in range(2 * hub)]
    clique = [(a, b) for a in range(85, 100) for b in range(85, a)]
    return directed([(node, node + 1) for node in range(99)] + leaves + clique, 900)


def path_graph(length):
    return directed([(node, node + 1) for node in range(length - 1)], length)


@pytest.mark.parametrize("small_front", [0, 1, 3, 20, 1 << 40])
@pytest.mark.parametrize("make", [caterpillar, large_graph, lambda: path_graph(500)])
def test_core_and_bfs_by_hand_and_in_rounds_are_those_of_networkx(monkeypatch, make, small_front):
    module = sys.modules[orderings.core.__module__]
    monkeypatch.setattr(module, "_SMALL_FRONT", small_front)
    graph = make()
    assert orderings.core(graph).tolist() == by_node(nx.core_number(simple(graph)), graph)
    for root in (0, 90):
        reached = nx.single_source_shortest_path_length(nx.DiGraph(graph.edge_index.t().tolist()), root)
        expected = [reached.get(node, graph.num_nodes) for node in range(graph.num_nodes)]
        assert orderings.bfs(graph, root=root).tolist() == expected


# No node, some nodes, all nodes by matrix products.
@pytest.mark.parametrize("largest_dense", [0, 1, 30, 400])
@pytest.mark.parametrize("make", [caterpillar, large_graph, lambda: SYMMETRIC["complete"]])
def test_triangles_by_products_are_those_of_networkx(monkeypatch, make, largest_dense):
    module = sys.modules[orderings.triangles.__module__]
    monkeypatch.setattr(module, "_LARGEST_DENSE", largest_dense)
    monkeypatch.setattr(module, "_PRODUCTS_PER_PATH", 1 << 40)
    graph = make()
    assert orderings.triangles(graph).tolist() == by_node(nx.triangles(simple(graph)), graph)


def test_triangles_of_a_complete_graph_under_autocast():
    """Counts above 256 would be rounded if the products were taken in bfloat16."""
    pairs = torch.combinations(torch.arange(400)).t()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        count = orderings.triangles(Graph(pairs, num_nodes=400))
    assert count.tolist() == [399 * 398 // 2] * 400


@many
@given(graph=graphs())
def test_ppr_is_that_of_appnp(graph):
    ones = torch.ones(graph.num_nodes, 1, dtype=torch.float64)
    expected = APPNP(K=15, alpha=0.1)(ones, graph.edge_index).squeeze(1) if graph.num_nodes else ones.squeeze(1)
    torch.testing.assert_close(orderings.ppr(graph), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["star", "complete", "petersen", "barbell"])
def test_eigenvector_is_that_of_the_matrix(name):
    graph = SYMMETRIC[name]
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    matrix[graph.edge_index[1], graph.edge_index[0]] = 1
    leading = torch.linalg.eigh(matrix).eigenvectors[:, -1].abs()
    steps = 3000 if name == "barbell" else 100
    torch.testing.assert_close(orderings.eigenvector(graph, steps), leading / leading.max(), rtol=1e-6, atol=1e-9)
