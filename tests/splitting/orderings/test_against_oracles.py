"""Orderings against networkx and PyTorch Geometric."""

import sys

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.nn import APPNP

from graphprism.splitting import orderings

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


@pytest.mark.parametrize("paths_per_chunk", [1, 7, 1000])
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
