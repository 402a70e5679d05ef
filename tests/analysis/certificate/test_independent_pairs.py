from fractions import Fraction
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprism.analysis.certificate import weighted_in_degrees
from graphprism.analysis.certificate.directions import direction_groups, independent_pairs, independent_witness

from .strategies import split_graphs


def are_independent(first, second):
    """Some 2 x 2 minor is not zero, in exact arithmetic."""
    pairs = combinations(range(len(first)), 2)
    return any(Fraction(first[a]) * Fraction(second[b]) != Fraction(first[b]) * Fraction(second[a]) for a, b in pairs)


def by_brute_force(matrix):
    return sum(are_independent(first, second) for first, second in combinations(matrix.tolist(), 2))


def test_the_example_of_the_paper():
    """In-degrees (4, 2), (2, 1), (3, 2), (2, 1): the third node is independent of all others, which are dependent."""
    in_degrees = torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [2.0, 1.0]])
    groups = direction_groups(in_degrees)
    independent = {(i, j) for i, j in combinations(range(4), 2) if groups[i] != groups[j]}
    assert independent == {(0, 2), (1, 2), (2, 3)}
    assert [count.tolist() for count in independent_pairs(in_degrees)] == [[3], [6]]


def test_the_example_of_the_paper_from_its_edges():
    """The figure's nodes 1 to 4 are 0 to 3 here; senders are 4. Node 1 gets weights 3 and -1 in the second relation."""
    targets = [0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 0, 0, 1, 2, 2, 3]
    edge_type = torch.tensor([0] * 11 + [1] * 6)
    weight = torch.tensor([1.0] * 11 + [3.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    edges = torch.stack([torch.full((17,), 4), torch.tensor(targets)])
    in_degrees = weighted_in_degrees(edges, edge_type, 5, 2, weight)
    assert in_degrees.tolist() == [[4, 2], [2, 1], [3, 2], [2, 1], [0, 0]]
    assert [count.item() for count in independent_pairs(in_degrees)] == [3, 10]


@given(split_graphs())
@settings(max_examples=100)
def test_equals_all_minors_on_random_graphs(case):
    graph, edge_type, num_relations = case
    in_degrees = weighted_in_degrees(graph.edge_index, edge_type, graph.num_nodes, num_relations)
    independent, pairs = independent_pairs(in_degrees)
    assert independent.item() == by_brute_force(in_degrees)
    assert pairs.item() == graph.num_nodes * (graph.num_nodes - 1) // 2


@given(st.lists(st.tuples(*[st.integers(-4, 4)] * 3), min_size=1, max_size=12), st.floats(0.01, 100))
def test_equals_all_minors_on_signed_vectors(rows, factor):
    matrix = torch.tensor(rows, dtype=torch.float64)
    assert independent_pairs(matrix)[0].item() == by_brute_force(matrix)
    assert independent_pairs(matrix * factor)[0].item() == by_brute_force(matrix)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=15))
def test_pairs_are_counted_within_graphs(rows):
    """The graph numbers need not be sorted; graph 3 has no nodes."""
    matrix, batch = torch.tensor(rows)[:, :2].double(), torch.tensor(rows)[:, 2]
    independent, pairs = independent_pairs(matrix, batch, num_graphs=4)
    sizes = torch.bincount(batch, minlength=4)
    assert independent.tolist() == [by_brute_force(matrix[batch == graph]) for graph in range(4)]
    assert pairs.tolist() == (sizes * (sizes - 1) // 2).tolist()


@given(split_graphs())
def test_a_witness_is_a_witness(case):
    graph, edge_type, num_relations = case
    in_degrees = weighted_in_degrees(graph.edge_index, edge_type, graph.num_nodes, num_relations)
    witness = independent_witness(direction_groups(in_degrees))
    if witness is None:
        assert by_brute_force(in_degrees) == 0
    else:
        assert are_independent(*(in_degrees[node].tolist() for node in witness))


def test_the_witnesses_are_of_one_graph_and_of_its_largest_groups():
    groups = torch.tensor([0, 1, -1, 2, 3, 3, 4, 4, 5])
    assert independent_witness(groups, torch.tensor([0, 1, 1, 2, 2, 2, 2, 2, 2])) == (4, 6)
    assert independent_witness(groups[:3], torch.tensor([0, 1, 1])) is None
    assert independent_witness(torch.tensor([-1, -1])) is None


def test_bad_input():
    with pytest.raises(ValueError, match="`batch` must have shape"):
        independent_pairs(torch.zeros(3, 2), torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"`batch` must hold numbers in \[0, 1\), got 1"):
        independent_pairs(torch.zeros(2, 2), torch.tensor([0, 1]), num_graphs=1)
    with pytest.raises(TypeError, match="`batch` must hold integers"):
        independent_pairs(torch.zeros(2, 2), torch.zeros(2))
