import networkx as nx
import pytest
import torch
from hypothesis import given, settings

from graphprism.analysis.certificate import cycles as _sweep
from graphprism.analysis.certificate.cycles import find_cycle, root_nodes
from graphprism.analysis.certificate.in_degrees import adjacency

from .strategies import as_networkx, graphs


@pytest.fixture(params=[0, 1, 2, 64], ids=lambda size: f"by hand below {size}")
def _front_size(request, monkeypatch):
    """Small graphs never fill a front: the rounds of numpy are tested by asking for them earlier."""
    monkeypatch.setattr(_sweep, "_SMALL_FRONT", request.param)


@pytest.mark.usefixtures("_front_size")
class TestAgainstNetworkx:
    # One graph after another shares the fixture, which only sets a number.
    @given(graphs())
    @settings(max_examples=60, suppress_health_check=list(settings.default.suppress_health_check))
    def test_acyclic_or_a_cycle(self, graph):
        cycle = find_cycle(graph.edge_index, graph.num_nodes)
        edges = set(map(tuple, graph.edge_index.t().tolist()))
        assert (not cycle) == nx.is_directed_acyclic_graph(as_networkx(graph))
        assert len(set(cycle)) == len(cycle)
        assert all(step in edges for step in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@given(graphs())
def test_roots_are_nodes_without_incoming_edges(graph):
    expected = [degree == 0 for _, degree in sorted(as_networkx(graph).in_degree())]
    assert root_nodes(graph.edge_index, graph.num_nodes).tolist() == expected


def test_a_loop_is_a_cycle_of_one():
    assert find_cycle(torch.tensor([[0, 1], [1, 1]]), 3) == [1]


def test_edges_that_run_both_ways_give_a_short_cycle():
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    assert find_cycle(torch.cat([ring, ring.flip(0)], dim=1), 9) == [0, 1]


def test_the_cycle_starts_at_its_smallest_node():
    assert find_cycle(torch.tensor([[3, 1, 2, 0], [1, 2, 3, 3]]), 4) == [1, 2, 3]


@pytest.mark.parametrize("shape", ["path", "ladder", "ring"])
def test_a_hundred_thousand_rounds(shape):
    count = 100_000
    path = torch.stack([torch.arange(count - 1), torch.arange(1, count)])
    edges = {
        "path": path,
        "ladder": torch.cat(
            [path, path + count, torch.stack([torch.arange(count), torch.arange(count) + count])], dim=1
        ),
        "ring": torch.cat([path, torch.tensor([[count - 1], [0]])], dim=1),
    }[shape]
    assert find_cycle(edges, 2 * count) == (list(range(count)) if shape == "ring" else [])


def test_wide_and_narrow_fronts_take_turns():
    """A node, a thousand nodes, a node, ... : both ways of walking have to hand over to each other."""
    layers = torch.arange(20) * 1001
    spread = (layers[:, None] + 1 + torch.arange(1000)).reshape(-1)
    fan_out, fan_in = (
        torch.stack([layers.repeat_interleave(1000), spread]),
        torch.stack([spread, spread // 1001 * 1001 + 1001]),
    )
    edges = torch.cat([fan_out, fan_in], dim=1)
    assert find_cycle(edges, 20 * 1001 + 1) == []
    closed = torch.cat([edges, torch.tensor([[20 * 1001], [19 * 1001]])], dim=1)
    assert len(find_cycle(closed, 20 * 1001 + 1)) == 3


def test_nothing_in():
    assert find_cycle(torch.zeros(2, 0, dtype=torch.long), 0) == []
    assert root_nodes(torch.zeros(2, 0, dtype=torch.long), 2).tolist() == [True, True]


def test_bad_input():
    with pytest.raises(ValueError, match="`edge_index` must hold numbers"):
        find_cycle(torch.tensor([[0], [5]]), 3)
    with pytest.raises(ValueError, match="`num_nodes` must be at most 2147483648"):
        adjacency(torch.zeros(0, dtype=torch.long).numpy(), torch.zeros(0, dtype=torch.long).numpy(), 2**31 + 1)
