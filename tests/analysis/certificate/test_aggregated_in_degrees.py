import pytest
import torch
from hypothesis import given

from graphprism.analysis.certificate import aggregated_in_degrees, structural_rank
from graphprism.analysis.certificate.directions import independent_pairs
from graphprism.analysis.certificate.in_degrees import coefficient_in_degrees
from graphprism.ops import RelationalAdj
from graphprism.ops.coefficients import Coefficients

from .strategies import split_graphs


def dense(graph, edge_type, num_relations, aggregation):
    """Row sums of the matrices A_r, with every matrix written out."""
    matrices = torch.zeros(num_relations, graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    for (source, target), relation in zip(graph.edge_index.t().tolist(), edge_type.tolist(), strict=True):
        matrices[relation, target, source] += 1
    whole = matrices.sum(0)
    entering, leaving = whole.sum(1).clamp(min=1), whole.sum(0).clamp(min=1)
    if aggregation == "mean":
        matrices = matrices / entering[:, None]
    if aggregation == "relation_mean":
        matrices = matrices / matrices.sum(2, keepdim=True).clamp(min=1)
    if aggregation == "dir":
        matrices = matrices / (entering[:, None] * leaving).sqrt()
    if aggregation == "sym":  # as GCN: a sender that no edge enters is not heard
        matrices = matrices / (entering[:, None] * entering).sqrt() * (whole.sum(1) > 0)
    return matrices.sum(2).t()


@pytest.mark.parametrize("aggregation", ["sum", "mean", "relation_mean", "sym", "dir"])
@given(split_graphs())
def test_equals_the_dense_definition(aggregation, case):
    graph, edge_type, num_relations = case
    ours = aggregated_in_degrees(graph.edge_index, edge_type, graph.num_nodes, num_relations, aggregation=aggregation)
    torch.testing.assert_close(ours, dense(graph, edge_type, num_relations, aggregation))


@given(split_graphs())
def test_one_mean_over_all_relations_changes_no_pair_and_no_rank(case):
    graph, edge_type, num_relations = case
    arguments = (graph.edge_index, edge_type, graph.num_nodes, num_relations)
    total, mean = aggregated_in_degrees(*arguments), aggregated_in_degrees(*arguments, aggregation="mean")
    assert independent_pairs(total) == independent_pairs(mean)
    assert structural_rank(total) == structural_rank(mean)


def test_bad_input():
    edges, types = torch.tensor([[0], [1]]), torch.tensor([0])
    with pytest.raises(ValueError, match=r"`aggregation` must be one of .*'sym'.*, got 'max'"):
        aggregated_in_degrees(edges, types, 2, 1, aggregation="max")
    with pytest.raises(ValueError, match="`edge_weight` must not be negative with aggregation 'mean'"):
        aggregated_in_degrees(edges, types, 2, 1, torch.tensor([-1.0]), aggregation="mean")
    with pytest.raises(ValueError, match="`edge_type` must not be negative with aggregation 'sym'"):
        aggregated_in_degrees(edges, torch.tensor([[-1.0]]), 2, 1, aggregation="sym")


def test_coefficient_in_degrees_add_the_row_of_the_receiver():
    adj = RelationalAdj(
        torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0]), torch.tensor([1.0, -2.0, 0.5]),
        num_relations=2, num_nodes=3,
    )  # fmt: skip
    own = (torch.tensor([1.5, 2.0], dtype=torch.float64),)
    found = coefficient_in_degrees(Coefficients("a sum", (adj,), own=own))
    # a weight of -2 cancels the receiver's own
    assert found.tolist() == [[1.5, 2.0], [2.0, 2.0], [2.5, 0.0]]
    assert coefficient_in_degrees(Coefficients("a sum", (adj,), own=own), merged=True).tolist() == [[1.5], [2.0], [0.5]]
