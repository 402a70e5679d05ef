"""What the certificate claims, seen on matrices: with the proofs' conditions it holds, without them it need not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprism.analysis.certificate import certify, direction_groups, structural_rank, weighted_in_degrees
from graphprism.analysis.certificate.cycles import find_cycle, root_nodes
from graphprism.splitting import Graph

from .strategies import graphs, split_graphs


def matrices(graph, edge_type, num_relations):
    """A_1, ..., A_R with a row for each node that receives, (R, N, N)."""
    out = torch.zeros(num_relations, graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    source, target = graph.edge_index
    return out.index_put_((edge_type, target, source), torch.ones(len(source), dtype=torch.float64), accumulate=True)


def layer(adjacency, x, seed, channels=4):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(len(adjacency), x.size(1), channels, generator=generator, dtype=torch.float64)
    return torch.einsum("rij,jf,rfo->io", adjacency, x, weights)


def inputs(num_nodes, seed):
    """Of rank one with equal rows, of rank one, and of full rank."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(num_nodes, 1, generator=generator, dtype=torch.float64)
    v = torch.randn(1, 3, generator=generator, dtype=torch.float64)
    full = torch.randn(num_nodes, 3, generator=generator, dtype=torch.float64)
    return {"equal rows": torch.ones(num_nodes, 1, dtype=torch.float64) @ v, "rank one": u @ v, "full": full}


def numerical_rank(matrix):
    return int(torch.linalg.matrix_rank(matrix, rtol=1e-11))


@pytest.mark.parametrize("activation", [torch.tanh, torch.nn.functional.leaky_relu, lambda x: x])
@pytest.mark.parametrize("kind", ["equal rows", "rank one", "full"])
@given(split_graphs(), st.integers(0, 2**31))
@settings(max_examples=40)
def test_the_rank_of_the_next_layer_is_at_least_the_structural_rank(kind, activation, case, seed):
    graph, edge_type, num_relations = case
    adjacency = matrices(graph, edge_type, num_relations)
    in_degrees = weighted_in_degrees(graph.edge_index, edge_type, graph.num_nodes, num_relations)
    torch.testing.assert_close(in_degrees, adjacency.sum(2).t())
    out = activation(layer(adjacency, inputs(graph.num_nodes, seed)[kind], seed))
    assert numerical_rank(out) >= structural_rank(in_degrees).item()


@pytest.mark.parametrize("kind", ["equal rows", "rank one", "full"])
@given(split_graphs(), st.integers(0, 2**31))
def test_structurally_independent_nodes_get_linearly_independent_vectors(kind, case, seed):
    graph, edge_type, num_relations = case
    adjacency = matrices(graph, edge_type, num_relations)
    groups = direction_groups(adjacency.sum(2).t()).tolist()
    out = torch.tanh(layer(adjacency, inputs(graph.num_nodes, seed)[kind], seed))
    for i in range(graph.num_nodes):
        for j in range(i):
            if min(groups[i], groups[j]) >= 0 and groups[i] != groups[j]:
                assert numerical_rank(out[[i, j]]) == 2


def test_equal_rows_without_activation_reach_the_floor_exactly():
    """For X = 1 v^T the sum is E V: its rank is that of E, so the floor cannot be raised."""
    graph = Graph(torch.tensor([[0, 1, 2, 0], [3, 3, 4, 4]]), 5)
    edge_type = torch.tensor([0, 1, 0, 1])
    adjacency = matrices(graph, edge_type, 2)
    in_degrees = adjacency.sum(2).t()
    assert structural_rank(in_degrees).item() == 1
    assert numerical_rank(layer(adjacency, inputs(5, 0)["equal rows"], 0)) == 1
    assert numerical_rank(layer(adjacency, inputs(5, 0)["rank one"], 0)) == 2  # sufficient, not necessary


def test_almost_every_input_is_not_every_input():
    """Structural rank 2, but the only sender of the first relation sends nothing."""
    graph, edge_type = Graph(torch.tensor([[0, 1], [2, 3]]), 4), torch.tensor([0, 1])
    adjacency = matrices(graph, edge_type, 2)
    x = torch.tensor([[0.0], [1.0], [1.0], [1.0]], dtype=torch.float64) @ torch.ones(1, 3, dtype=torch.float64)
    assert structural_rank(adjacency.sum(2).t()).item() == 2
    assert numerical_rank(layer(adjacency, x, 0)) == 1


def test_relu_is_not_injective_and_may_lose_all_rank():
    graph, edge_type = Graph(torch.tensor([[0, 1], [2, 3]]), 4), torch.tensor([0, 1])
    adjacency, x = matrices(graph, edge_type, 2), torch.ones(4, 3, dtype=torch.float64)
    weights = -torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = torch.einsum("rij,jf,rfo->io", adjacency, x, weights)  # an open set of weights: all negative
    assert numerical_rank(torch.tanh(out)) == 2
    assert numerical_rank(out.relu()) == 0


@given(graphs(max_edges=10), st.integers(0, 2**31))
def test_ergodic_relations_with_a_mean_each_leave_no_independent_pair(graph, seed):
    """Two ergodic relations: a ring with a loop, and the same ring with other edges added."""
    ring = torch.stack([torch.arange(graph.num_nodes), (torch.arange(graph.num_nodes) + 1) % graph.num_nodes])
    loop = torch.zeros(2, 1, dtype=torch.long)
    edges = torch.cat([ring, loop, ring, loop, graph.edge_index], dim=1)
    edge_type = (torch.arange(edges.size(1)) > graph.num_nodes).long()
    weight = torch.rand(edges.size(1), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    whole = Graph(edges, graph.num_nodes)
    certificate = certify(whole, edge_type, edge_weight=weight, aggregation="relation_mean")
    assert all(relation.ergodic for relation in certificate.relations)
    assert certificate.independent_pairs == 0
    assert certificate.rank == 1


def test_ergodic_relations_with_one_mean_over_both_may_have_independent_pairs():
    ring = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 0]])
    edges = torch.cat([ring, ring, torch.tensor([[2], [1]])], dim=1)
    certificate = certify(Graph(edges, 3), torch.tensor([0] * 4 + [1] * 5), aggregation="mean")
    assert all(relation.ergodic for relation in certificate.relations)
    assert certificate.independent_pairs == 2


@st.composite
def two_acyclic_relations(draw):
    """Edges that rise in one of two random orders of the nodes."""
    num_nodes = draw(st.integers(2, 7))
    edges, types = [], []
    for relation in range(2):
        order = draw(st.permutations(range(num_nodes)))
        rising = st.tuples(*[st.integers(0, num_nodes - 1)] * 2).map(sorted).filter(lambda pair: pair[0] != pair[1])
        for i, j in draw(st.lists(rising, min_size=1, max_size=6)):
            edges.append((order[i], order[j]))
            types.append(relation)
    return Graph(torch.tensor(edges).t(), num_nodes), torch.tensor(types)


@given(two_acyclic_relations(), st.integers(0, 2**31))
@settings(max_examples=100)
def test_two_acyclic_relations_with_different_roots_have_independent_pairs(case, seed):
    graph, edge_type = case
    parts = [graph.edge_index[:, edge_type == relation] for relation in range(2)]
    assert all(find_cycle(part, graph.num_nodes) == [] for part in parts)
    roots = [root_nodes(part, graph.num_nodes).tolist() for part in parts]
    weight = torch.from_numpy(np.random.default_rng(seed).uniform(0.1, 2.0, len(edge_type)))
    certificate = certify(graph, edge_type, num_relations=2, edge_weight=weight)
    if roots[0] != roots[1]:
        assert certificate.independent_pairs > 0
        assert certificate.rank == 2


def test_weights_that_cancel_undo_that():
    """Non-zero weights alone are not enough: what enters node 2 in the first relation sums to 0."""
    graph = Graph(torch.tensor([[0, 1, 0], [2, 2, 3]]), 4)
    weight = torch.tensor([1.0, -1.0, 1.0])
    certificate = certify(graph, torch.tensor([0, 0, 1]), edge_weight=weight)
    assert [relation.acyclic for relation in certificate.relations] == [True, True]
    assert certificate.independent_pairs == 0
