from itertools import pairwise

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprism.analysis.certificate import cycles as _sweep
from graphprism.analysis.certificate.cycles import ergodic_graphs

from .strategies import as_networkx, graphs, together


def by_networkx(graph):
    other = nx.DiGraph(as_networkx(graph))
    return nx.is_strongly_connected(other) and other.number_of_edges() > 0 and nx.is_aperiodic(other)


def rings(*lengths):
    """Rings that share node 0."""
    edges, count = [], 1
    for length in lengths:
        nodes = [0, *range(count, count + length - 1), 0]
        edges += pairwise(nodes)
        count += length - 1
    return torch.tensor(edges).t(), count


@pytest.mark.parametrize("by_hand_below", [0, 2, 64])
def test_against_networkx(by_hand_below, monkeypatch):
    monkeypatch.setattr(_sweep, "_SMALL_FRONT", by_hand_below)

    @given(graphs(max_nodes=4, max_edges=9))
    @settings(max_examples=150)
    def check(graph):
        assert ergodic_graphs(graph.edge_index, graph.num_nodes).tolist() == [by_networkx(graph)]

    check()


@given(st.lists(graphs(max_nodes=3, max_edges=6), min_size=1, max_size=5))
@settings(max_examples=100)
def test_a_batch_equals_its_graphs(parts):
    batch = together(parts)
    ours = ergodic_graphs(batch.edge_index, batch.num_nodes, batch.batch, len(parts))
    assert ours.tolist() == [by_networkx(part) for part in parts]


@pytest.mark.parametrize(
    ("lengths", "expected"), [((1,), True), ((2,), False), ((4, 6), False), ((6, 10, 15), True), ((2, 3), True)]
)
def test_the_period_is_the_common_divisor_of_all_cycles(lengths, expected):
    assert ergodic_graphs(*rings(*lengths)).tolist() == [expected]


def test_a_long_ring_with_one_chord():
    edges, count = rings(100_000)
    assert ergodic_graphs(edges, count).tolist() == [False]
    chord = torch.tensor([[0], [2]])  # a second cycle, one edge shorter
    assert ergodic_graphs(torch.cat([edges, chord], dim=1), count).tolist() == [True]


def test_a_batch_in_any_order_of_nodes():
    edges = torch.tensor([[0, 0, 1], [2, 0, 1]])
    edges = torch.cat([edges, torch.tensor([[2], [0]])], dim=1)
    assert ergodic_graphs(edges, 3, torch.tensor([0, 1, 0])).tolist() == [True, True]


def test_nothing_in():
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert ergodic_graphs(nothing, 1).tolist() == [False]
    assert ergodic_graphs(nothing, 0).tolist() == [False]
    assert ergodic_graphs(nothing, 1, torch.tensor([1]), num_graphs=3).tolist() == [False] * 3
