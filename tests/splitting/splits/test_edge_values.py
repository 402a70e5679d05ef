"""Splits by a value of the edge: by hand and against networkx."""

import networkx as nx
import pytest
import torch
from hypothesis import given

from graphprism.splitting import by_community, by_curvature, by_similarity
from graphprism.splitting.edge_values import communities, curvature, edge_triangles, similarity
from graphprism.splitting.graph import simple_edges

from ..zoo import SYMMETRIC, directed, graphs, undirected


def as_networkx(graph):
    found = nx.Graph()
    found.add_nodes_from(range(graph.num_nodes))
    found.add_edges_from((a, b) for a, b in graph.edge_index.t().tolist() if a != b)
    return found


@given(graphs())
def test_curvature_is_that_of_networkx_degrees_and_common_neighbours(graph):
    other, found = as_networkx(graph), curvature(graph).tolist()
    for (a, b), value in zip(graph.edge_index.t().tolist(), found, strict=True):
        if a == b:
            assert value == 0
            continue
        small, large = sorted((other.degree[a], other.degree[b]))
        triangles = len(list(nx.common_neighbors(other, a, b)))
        expected = 2 / small + 2 / large - 2 + 2 * triangles / large + triangles / small
        assert value == pytest.approx(expected)


def test_edge_triangles_of_a_dense_graph():
    graph = undirected(nx.erdos_renyi_graph(60, 0.4, seed=1))
    edges, other = simple_edges(graph.edge_index, 60), as_networkx(graph)
    expected = [len(list(nx.common_neighbors(other, a, b))) for a, b in edges.t().tolist()]
    assert edge_triangles(edges, 60).tolist() == expected


def test_curvature_by_hand():
    barbell = undirected(nx.barbell_graph(5, 0))  # two cliques of five, joined by one edge
    joins = (barbell.edge_index < 5).sum(0) == 1
    assert by_curvature()(barbell).tolist() == (~joins).long().tolist()
    assert by_curvature(-10.0)(barbell).tolist() == [1] * barbell.edge_index.size(1)


def test_similarity_by_hand():
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    graph = directed([(0, 1), (0, 2), (1, 2), (2, 2), (3, 0)], 4, x=x)
    torch.testing.assert_close(similarity(graph), torch.tensor([0.5**0.5, 0, 0.5**0.5, 1, 0]).double())
    assert by_similarity()(graph).tolist() == [1, 0, 1, 1, 0]  # loops are no part of the mean
    assert by_similarity(0.9)(graph).tolist() == [0, 0, 0, 1, 0]
    atoms = directed([(0, 1), (1, 2)], 3, x=torch.tensor([6, 6, 8]))
    assert similarity(atoms).tolist() == [1, 0]


def test_similarity_needs_features():
    with pytest.raises(ValueError, match="must have an attribute `x` with the features"):
        by_similarity()(directed([(0, 1)], 2))
    with pytest.raises(ValueError, match="`threshold` must be a finite number"):
        by_similarity(float("nan"))


@pytest.mark.parametrize(
    "graph",
    [
        *SYMMETRIC.values(),
        undirected(nx.connected_caveman_graph(6, 8)),
        undirected(nx.planted_partition_graph(4, 30, 0.4, 0.02, seed=2)),
    ],
)
def test_communities_have_the_modularity_of_networkx(graph):
    found, other = communities(graph).tolist(), as_networkx(graph)
    groups = [{node for node, each in enumerate(found) if each == name} for name in set(found)]
    oracle = nx.community.louvain_communities(other, seed=0)
    assert nx.community.modularity(other, groups) >= nx.community.modularity(other, oracle) - 0.06


def test_community_by_hand():
    caveman = undirected(nx.connected_caveman_graph(4, 6))
    joins = caveman.edge_index[0] // 6 != caveman.edge_index[1] // 6
    assert by_community()(caveman).tolist() == (~joins).long().tolist()
