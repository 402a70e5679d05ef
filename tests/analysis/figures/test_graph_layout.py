import numpy as np
import pytest
import torch

from graphprism.plotting import graph_layout
from graphprism.plotting.graph_layout import _scaled
from graphprism.testing import molecules


def distances(positions):
    return np.linalg.norm(positions[:, None] - positions[None], axis=2)


def test_path_is_a_straight_line():
    edges = torch.stack([torch.arange(9), torch.arange(1, 10)])
    expected = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    assert distances(graph_layout(edges, 10)) == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("count", [3, 6, 11])
def test_ring_is_regular(count):
    nodes = torch.arange(count)
    found = distances(graph_layout(torch.stack([nodes, (nodes + 1) % count]), count))
    sides = found[np.arange(count), (np.arange(count) + 1) % count]
    assert sides == pytest.approx(sides[0], rel=1e-2)


def test_leaves_of_a_star_are_apart():
    edges = torch.stack([torch.zeros(14, dtype=torch.long), torch.arange(1, 15)])
    found = distances(graph_layout(edges, 15)) + 10 * np.eye(15)
    assert found.min() > 0.3


def test_twins_do_not_leave_their_start_to_rounding():
    places = np.array([(x, y) for x in range(5) for y in range(5)])
    steps = np.abs(places[:, None] - places[None]).sum(2).astype(float)
    steps = np.pad(steps, (0, 2))
    steps[25:, :25] = steps[0, :25] + 1  # two leaves of the corner
    steps[:25, 25:] = steps[25:, :25].T
    steps[25, 26] = steps[26, 25] = 2
    assert distances(_scaled(steps))[25, 26] > 1e-3


def test_twins_at_the_corner_of_a_grid_are_apart():
    nodes = torch.arange(25).view(5, 5)
    across = torch.stack([nodes[:, :-1].flatten(), nodes[:, 1:].flatten()])
    along = torch.stack([nodes[:-1].flatten(), nodes[1:].flatten()])
    twins = torch.tensor([[0, 0], [25, 26]])
    edges = torch.cat([across, along, twins], dim=1)
    found = distances(graph_layout(edges, 27))
    assert found[25, 26] > 0.3


@pytest.mark.parametrize("graph", molecules(5), ids=range(5))
def test_edges_of_molecules_are_about_one_long(graph):
    positions = graph_layout(graph.edge_index, graph.num_nodes)
    source, target = graph.edge_index.numpy()
    lengths = np.linalg.norm(positions[source] - positions[target], axis=1)
    assert 0.5 < lengths.min() < lengths.max() < 1.5
    assert (distances(positions) + np.eye(len(positions))).min() > 0.3


def test_same_graph_same_places():
    graph = molecules(1)[0]
    first, second = (graph_layout(graph.edge_index, graph.num_nodes) for _ in range(2))
    assert np.array_equal(first, second)


def test_direction_copies_and_loops_change_nothing():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]])
    more = torch.tensor([[1, 1, 2, 0, 0, 3], [0, 2, 0, 3, 1, 3]])
    assert np.array_equal(graph_layout(edges, 4), graph_layout(torch.cat([edges, more], dim=1), 4))


def test_components_do_not_overlap():
    rings = [torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]) + 5 * number for number in range(7)]
    positions = graph_layout(torch.cat(rings, dim=1), 40)  # and five nodes without edges
    parts = [positions[5 * number : 5 * number + 5] for number in range(7)] + [positions[[n]] for n in range(35, 40)]
    for number, part in enumerate(parts):
        for other in parts[:number]:
            apart = (part.min(0) > other.max(0) + 0.5) | (other.min(0) > part.max(0) + 0.5)
            assert apart.any()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_hardly_any_nodes(count):
    positions = graph_layout(torch.empty(2, 0, dtype=torch.long), count)
    assert positions.shape == (count, 2)
    assert np.isfinite(positions).all()
