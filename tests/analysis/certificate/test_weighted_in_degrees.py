import pytest
import torch
from hypothesis import given

from graphprism.analysis.certificate import weighted_in_degrees

from .strategies import split_graphs

EDGES = torch.tensor([[0, 1, 0, 2], [2, 2, 1, 2]])
TYPES = torch.tensor([0, 1, 0, 0])


def test_by_hand():
    weight = torch.tensor([0.5, 2.0, 3.0, 0.25])
    expected = [[0, 0], [3, 0], [0.75, 2]]
    assert weighted_in_degrees(EDGES, TYPES, 3, 2, weight).tolist() == expected


def test_edges_count_where_they_end():
    assert weighted_in_degrees(torch.tensor([[0], [1]]), torch.tensor([0]), 2, 1).tolist() == [[0], [1]]


@given(split_graphs())
def test_scores_of_one_relation_each_are_relation_numbers(case):
    graph, edge_type, num_relations = case
    hard = weighted_in_degrees(graph.edge_index, edge_type, graph.num_nodes, num_relations)
    scores = torch.nn.functional.one_hot(edge_type, num_relations).float()
    assert torch.equal(weighted_in_degrees(graph.edge_index, scores, graph.num_nodes, num_relations), hard)


def test_an_edge_may_be_in_several_relations():
    scores = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    edges, weight = torch.tensor([[0, 1], [1, 1]]), torch.tensor([2.0, 4.0])
    assert weighted_in_degrees(edges, scores, 2, 2, weight).tolist() == [[0, 0], [1, 5]]


def test_weights_that_cancel_leave_an_exact_zero():
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])
    weight = torch.tensor([0.1, 0.2, -0.3], dtype=torch.float64)
    assert float(weight.sum()) != 0
    assert weighted_in_degrees(edges, torch.zeros(3, dtype=torch.long), 4, 1, weight).abs().sum() == 0


def test_sums_are_double():
    edges = torch.zeros(2, 3, dtype=torch.long)
    weight = torch.tensor([1.0, 2.0**-30, 2.0**-30])
    assert weighted_in_degrees(edges, torch.zeros(3, dtype=torch.long), 1, 1, weight).item() == 1 + 2.0**-29


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((EDGES[0], TYPES, 3, 2), "`edge_index` must have shape"),
        ((EDGES, TYPES, 2, 2), r"`edge_index` must hold numbers in \[0, 2\), got 2"),
        ((EDGES - 1, TYPES, 3, 2), r"`edge_index` must hold numbers in \[0, 3\), got -1"),
        ((EDGES, TYPES[:2], 3, 2), "`edge_type` must have shape"),
        ((EDGES, TYPES, 3, 1), r"`edge_type` must hold numbers in \[0, 1\), got 1"),
        ((EDGES, torch.zeros(4, 3), 3, 2), "`edge_type` must have shape"),
        ((EDGES, torch.full((4, 2), float("nan")), 3, 2), "`edge_type` must not hold NaN"),
        ((EDGES, TYPES, 3, 2, torch.ones(3)), "`edge_weight` must have shape"),
        ((EDGES, TYPES, 3, 2, torch.full((4,), float("inf"))), "`edge_weight` must hold finite numbers"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        weighted_in_degrees(*arguments)


def test_scores_must_be_floating():
    with pytest.raises(TypeError, match="`edge_type` must hold floating-point"):
        weighted_in_degrees(EDGES, torch.zeros(4, 2, dtype=torch.long), 3, 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_relations_together_equal_each_relation_alone(weighted):
    """To the last bit, with weights that cancel in some relations and unused relations in between."""
    random = torch.Generator().manual_seed(0)
    edges, types = torch.randint(0, 9, (2, 500), generator=random), 3 * torch.randint(0, 50, (500,), generator=random)
    weight = torch.randn(500, generator=random, dtype=torch.float64)
    edges[:, 250:], types[250:], weight[250:] = edges[:, :250], types[:250], -weight[:250]
    weight[250:300] = 0.1
    result = weighted_in_degrees(edges, types, 9, 150, weight if weighted else None)
    for relation in range(150):
        members = types == relation
        alone = torch.zeros(int(members.sum()), dtype=torch.long)
        part = weighted_in_degrees(edges[:, members], alone, 9, 1, weight[members] if weighted else None)
        assert torch.equal(result[:, relation], part[:, 0])


def test_relations_are_not_gone_through_one_by_one():
    """10^7 relations, few of which occur: a pass over the edges for each would not end."""
    result = weighted_in_degrees(torch.tensor([[0, 1], [1, 0]]), torch.tensor([7, 9_999_999]), 2, 10_000_000)
    assert result.nonzero().tolist() == [[0, 9_999_999], [1, 7]]
