import copy
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from graphprism.analysis.certificate import Certificate, certify, weighted_in_degrees
from graphprism.analysis.certificate.directions import independent_pairs
from graphprism.splitting import Graph, by_direction, by_order, by_soft_order

from .strategies import graphs, split_graphs, together

STAR = Graph(torch.tensor([[0, 1, 0, 2, 0, 3, 3, 4], [1, 0, 2, 0, 3, 0, 4, 3]]), 5)


def figures(certificate):
    """What must not depend on the numbers of the nodes."""
    relations = [
        (part.num_edges, part.acyclic_graphs, part.num_roots, part.num_sources, part.ergodic_graphs, bool(part.cycle))
        for part in certificate.relations
    ]
    return certificate.rank_counts, certificate.independent_pairs, certificate.total_pairs, relations


def test_by_hand():
    """A hub 0 with leaves 1, 2 and an arm 3 - 4: by degree, up leads to the hub and from 4 to 3, there are no ties."""
    certificate = certify(STAR, "degree")
    up, down, tie = certificate.relations
    assert (up.name, down.name, tie.name) == ("up", "down", "tie")
    assert (up.num_edges, down.num_edges, tie.num_edges) == (4, 4, 0)
    assert up.acyclic
    assert (up.num_roots, up.num_sources) == (3, 3)
    assert (down.num_roots, down.num_sources) == (1, 1)
    assert (tie.num_roots, tie.num_sources) == (5, 0)
    # In-degrees (up, down): 0 has (3, 0), 3 has (1, 1), 1, 2 and 4 have (0, 1).
    assert certificate.rank == 2
    assert (certificate.independent_pairs, certificate.total_pairs) == (7, 10)
    assert certificate.witness == (1, 0)
    assert certificate.witness_in_degrees == ((0, 1, 0), (3, 0, 0))
    assert certificate.balance == (0.5, 0.5, 0)


def test_the_cycle_of_a_tie():
    certificate = certify(Graph(torch.tensor([[0, 1], [1, 0]]), 2), "degree")
    tie = certificate.relations[2]
    assert not tie.acyclic
    assert tie.cycle == (0, 1)
    assert not tie.ergodic  # its period is 2
    assert certificate.rank == 1


@pytest.mark.parametrize("split", ["degree", by_order("degree"), lambda graph: by_order("degree")(graph)])
def test_a_split_or_its_result(split):
    data = Data(edge_index=STAR.edge_index, num_nodes=5, edge_type=by_order("degree")(STAR))
    assert figures(certify(STAR, split, num_relations=3)) == figures(certify(data, num_relations=3))


@given(split_graphs(), st.randoms(use_true_random=False))
def test_the_numbers_of_the_nodes_do_not_matter(case, random):
    graph, edge_type, num_relations = case
    new_number = torch.tensor(random.sample(range(graph.num_nodes), graph.num_nodes))
    new_place = torch.tensor(random.sample(range(len(edge_type)), len(edge_type)), dtype=torch.long)
    renumbered = Graph(new_number[graph.edge_index][:, new_place], graph.num_nodes)
    ours = certify(graph, edge_type, num_relations=num_relations)
    assert figures(certify(renumbered, edge_type[new_place], num_relations=num_relations)) == figures(ours)


@given(split_graphs(), st.floats(1e-3, 1e3))
def test_a_factor_on_all_weights_does_not_matter(case, factor):
    graph, edge_type, num_relations = case
    weight = torch.linspace(1, 2, len(edge_type), dtype=torch.float64)
    plain = certify(graph, edge_type, num_relations=num_relations, edge_weight=weight)
    scaled = certify(graph, edge_type, num_relations=num_relations, edge_weight=weight * factor)
    assert figures(scaled) == figures(plain)
    assert scaled.witness == plain.witness


@given(st.lists(graphs(max_nodes=5), min_size=1, max_size=4))
def test_a_batch_is_the_sum_of_its_graphs(parts):
    whole, alone = certify(together(parts), "degree"), [certify(part, "degree") for part in parts]
    assert whole.num_graphs == len(parts)
    assert whole.rank == min(part.rank for part in alone)
    assert whole.rank_counts == tuple(map(sum, zip(*(part.rank_counts for part in alone), strict=True)))
    for name in ("num_nodes", "num_edges", "independent_pairs", "total_pairs"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in alone)
    for number, relation in enumerate(whole.relations):
        others = [part.relations[number] for part in alone]
        assert relation.acyclic == all(other.acyclic for other in others)
        assert relation.ergodic == all(other.ergodic for other in others)
        for name in ("num_edges", "acyclic_graphs", "num_roots", "num_sources", "ergodic_graphs"):
            assert getattr(relation, name) == sum(getattr(other, name) for other in others)
        if relation.cycle:
            assert others[relation.cycle_graph].cycle == relation.cycle
    if whole.witness:
        assert alone[whole.witness_graph].witness == whole.witness


def test_graphs_are_counted_by_what_holds_on_them():
    """No cycle; a cycle of two; a loop, which alone is ergodic: one graph of each."""
    parts = [Graph(torch.tensor(edges), 2) for edges in ([[0], [1]], [[0, 1], [1, 0]], [[0, 1, 1], [1, 0, 1]])]
    relation = certify(parts, lambda graph: torch.zeros_like(graph.edge_index[0])).relations[0]
    assert (relation.acyclic, relation.acyclic_graphs) == (False, 1)
    assert (relation.ergodic, relation.ergodic_graphs) == (False, 1)
    assert (relation.cycle, relation.cycle_graph) == ((0, 1), 1)


class Molecules(InMemoryDataset):
    def __init__(self, data_list):
        super().__init__()
        self.data, self.slices = self.collate(data_list)


def test_every_form_of_a_dataset_gives_the_same():
    ring = torch.stack([torch.arange(5), (torch.arange(5) + 1) % 5])
    parts = [STAR, Graph(torch.cat([ring, ring.flip(0)], dim=1), 5), Graph(torch.tensor([[0, 1], [1, 0]]), 4)]
    data = [Data(edge_index=part.edge_index, num_nodes=part.num_nodes) for part in parts]
    expected = certify(together(parts), "degree")
    assert expected.num_graphs == 3
    for dataset in (
        parts,
        data,
        tuple(data),
        iter(data),
        Batch.from_data_list(data),
        Molecules(data),
        DataLoader(data, 2),
    ):
        assert certify(dataset, "degree") == expected


def test_stored_relations_of_a_dataset():
    data = [Data(edge_index=STAR.edge_index, num_nodes=5, edge_type=by_order("degree")(STAR)) for _ in range(2)]
    assert certify(data, num_relations=3).independent_pairs == 14


def test_soft_splits_belong_to_every_relation_with_a_score():
    certificate = certify(STAR, by_soft_order("degree"))
    scores = by_soft_order("degree")(STAR)
    assert [part.num_edges for part in certificate.relations] == (scores != 0).sum(0).tolist()
    in_degrees = weighted_in_degrees(STAR.edge_index, scores, 5, scores.size(1))
    assert certificate.independent_pairs == independent_pairs(in_degrees)[0].item()
    hand = certify(Graph(torch.tensor([[0, 1], [1, 0]]), 2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    assert [part.acyclic for part in hand.relations] == [True, False]


def test_weights_come_from_the_data_unless_given():
    weight = torch.tensor([1.0, 1.0, 1.0, 2.0])
    data = Data(edge_index=torch.tensor([[0, 1, 0, 1], [2, 2, 3, 3]]), num_nodes=4, edge_weight=weight)
    split = torch.tensor([0, 1, 0, 1])
    assert certify(data, split).witness_in_degrees == ((1, 1), (1, 2))
    assert certify(data, split, edge_weight=torch.ones(4)).witness is None
    data.edge_weight = weight[:, None]
    assert certify(data, split).witness_in_degrees == ((1, 1), (1, 2))


def test_relations_that_no_edge_is_in():
    certificate = certify(STAR, torch.zeros(8, dtype=torch.long), num_relations=3)
    assert [part.num_edges for part in certificate.relations] == [8, 0, 0]
    assert certificate.rank == 1


def test_directions_that_differ_exactly_have_rank_two():
    """40,001 edges against 40,002: the vectors are 6e-10 apart in angle, below the tolerance of the rank."""
    counts = [40_001, 1, 40_002, 1]
    target = torch.repeat_interleave(torch.tensor([0, 0, 1, 1]), torch.tensor(counts))
    edge_type = torch.repeat_interleave(torch.tensor([0, 1, 0, 1]), torch.tensor(counts))
    certificate = certify(Graph(torch.stack([torch.full_like(target, 2), target]), 3), edge_type)
    assert certificate.independent_pairs == 1
    assert certificate.rank == 2


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_graphs_without_edges(num_nodes):
    certificate = certify(Graph(torch.zeros(2, 0, dtype=torch.long), num_nodes), "degree")
    assert certificate.rank == 0
    assert certificate.independent_pairs == 0
    assert certificate.total_pairs == num_nodes * (num_nodes - 1) // 2
    assert certificate.witness is None
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_the_data_is_left_as_it_was():
    data = Data(
        edge_index=STAR.edge_index.clone(), num_nodes=5, edge_type=by_order("degree")(STAR), edge_weight=torch.ones(8)
    )
    before = copy.copy(data.to_dict())
    before = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in before.items()}
    certify(data, aggregation="sym")
    assert all(np.array_equal(before[key], value) for key, value in data.to_dict().items())
    assert set(before) == set(data.to_dict())


def test_pairs_against_all_pairs_on_a_larger_graph():
    generator = torch.Generator().manual_seed(0)
    graph = Graph(torch.randint(60, (2, 300), generator=generator), 60)
    rows = weighted_in_degrees(graph.edge_index, by_direction()(graph), 60, 2).long().tolist()
    expected = sum(a[0] * b[1] != a[1] * b[0] for a, b in combinations(rows, 2))
    assert certify(graph, by_direction()).independent_pairs == expected > 0


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (STAR, {}, ValueError, "`data` must have an `edge_type`, or `split` must be given"),
        (3, {}, TypeError, r"`data` must be a graph .* got int"),
        ("cora", {}, TypeError, r"`data` must be a graph .* got str"),
        ([], {}, ValueError, "`data` must hold at least one graph"),
        ([STAR, 3], {}, TypeError, "got int among them"),
        (STAR, {"split": torch.zeros(3, dtype=torch.long)}, ValueError, "shape"),
        (STAR, {"split": "degree", "edge_weight": torch.ones(3)}, ValueError, "`edge_weight` must have shape"),
        (STAR, {"split": "degree", "edge_weight": 2.0}, TypeError, "`edge_weight` must be a torch.Tensor"),
        (STAR, {"split": "degree", "aggregation": "max"}, ValueError, "`aggregation` must be one of"),
        (Graph(STAR.edge_index, 3), {"split": "degree"}, ValueError, "`edge_index` must hold numbers"),
        (Graph(STAR.edge_index, 5, batch=torch.zeros(2)), {"split": "degree"}, ValueError, "`batch` must have shape"),
        (
            STAR,
            {"split": torch.ones(8, dtype=torch.long), "num_relations": 1},
            ValueError,
            "`edge_type` must hold numbers",
        ),
    ],
)
def test_bad_input(data, options, error, message):
    with pytest.raises(error, match=message):
        certify(data, **options)


def test_numbers_of_relations_far_apart_cost_nothing():
    data = Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4)
    data.edge_type = torch.tensor([0, 10**12, 0, 5])
    assert [relation.name for relation in certify(data).relations] == ["0", "5", "1000000000000"]
    data.edge_type = torch.tensor([0, 2, 0, 2])
    assert [relation.name for relation in certify(data).relations] == ["0", "1", "2"]
