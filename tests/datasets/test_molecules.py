import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import degree, is_undirected, to_networkx

from graphprism.datasets import molecules
from graphprism.datasets.molecules import VALENCE, molecule_target


@pytest.fixture(scope="module")
def dataset():
    return molecules(600)


def target(graph: nx.Graph, types: list[int] | None = None) -> float:
    """The target of one graph given with networkx."""
    graph = nx.convert_node_labels_to_integers(graph)
    types = types or [0] * len(graph)
    edges = np.array([*graph.edges, *(edge[::-1] for edge in graph.edges)]).reshape(-1, 2).T
    return float(molecule_target(np.array(types), edges, np.array([0, len(types)]), np.array([0, edges.shape[1]]))[0])


def two_rings(first: int, second: int) -> nx.Graph:
    graph = nx.disjoint_union(nx.cycle_graph(first), nx.cycle_graph(second))
    graph.add_edge(0, first)
    return graph


def test_the_same_seed_gives_the_same_bits(dataset):
    again, other = molecules(600), molecules(600, seed=1)
    for key in ("x", "edge_index", "edge_attr", "y", "node_ptr", "edge_ptr", "split"):
        assert torch.equal(getattr(again, key), getattr(dataset, key))
    assert not torch.equal(other.node_ptr, dataset.node_ptr)


def test_fewer_are_the_first_of_more(dataset):
    few = molecules(20)
    assert torch.equal(few.y, dataset.y[:20])
    assert torch.equal(few.edge_index, dataset.edge_index[:, : few.edge_ptr[-1]])


def test_graphs_are_connected_and_simple_with_rings_of_five_and_six(dataset):
    rings = set()
    for index in range(150):
        data = dataset.graph(index)
        graph = to_networkx(data, to_undirected=True)
        assert nx.is_connected(graph)
        assert graph.number_of_edges() * 2 == data.num_edges
        assert nx.number_of_selfloops(graph) == 0
        assert is_undirected(data.edge_index, data.edge_attr)
        rings.update(len(cycle) for cycle in nx.minimum_cycle_basis(graph))
    assert rings == {5, 6}


def test_bonds_do_not_exceed_the_valence(dataset):
    batch = dataset.batch(range(len(dataset)))
    used = torch.zeros(batch.num_nodes, dtype=torch.long).index_add_(0, batch.edge_index[0], batch.edge_attr[:, 0])
    assert bool((used <= torch.from_numpy(VALENCE)[batch.x[:, 0]]).all())
    assert degree(batch.edge_index[0]).max() == 4
    assert batch.edge_attr.unique().tolist() == [1, 2, 3]


def test_sizes_are_those_of_zinc(dataset):
    sizes = dataset.node_ptr.diff().double()
    assert sizes.min() >= 9
    assert sizes.max() <= 37
    assert abs(sizes.mean() - 23.2) < 0.5
    assert abs(sizes.std() - 4.5) < 0.5
    assert abs((dataset.edge_ptr.diff() / 2).mean() - 24.9) < 0.7
    assert int(dataset.x.max()) < 28


def test_targets_are_standard_and_differ(dataset):
    assert abs(float(dataset.y.mean())) < 0.15
    assert abs(float(dataset.y.std()) - 1) < 0.15
    assert dataset.y.unique().numel() > 590


def test_split():
    assert torch.bincount(molecules(24).split).tolist() == [20, 2, 2]
    assert molecules(1).split.tolist() == [0]
    with pytest.raises(ValueError, match="`num_graphs` must be at least 1, got 0"):
        molecules(0)


def test_target_by_its_definition(dataset):
    for index in range(40):
        data = dataset.graph(index)
        graph = to_networkx(data, to_undirected=True)
        score = {atom: float(np.cos(2 * kind + 2)) for atom, kind in enumerate(data.x[:, 0].tolist())}
        cycles = nx.minimum_cycle_basis(graph)
        rings = sum((1 if len(cycle) == 6 else -1) * sum(score[atom] for atom in cycle) for cycle in cycles)
        paths = [(a, c) for b in graph for a in graph[b] for c in graph[b] if a != c]
        branching = sum(graph.degree[a] >= 3 and graph.degree[b] >= 3 for a, b in graph.edges)
        raw = rings + sum(score[a] * score[c] for a, c in paths) - branching
        assert (raw + 0.64) / 4.7 == pytest.approx(float(data.y), abs=1e-5)


def test_target_sees_ring_sizes_that_types_and_degrees_do_not_show():
    one, other = two_rings(6, 6), two_rings(5, 7)
    assert sorted(d for _, d in one.degree) == sorted(d for _, d in other.degree)
    assert abs(target(one) - target(other)) > 0.5


def test_target_sees_types_two_bonds_apart():
    path = nx.path_graph(5)
    assert abs(target(path, [1, 0, 1, 0, 0]) - target(path, [1, 0, 0, 1, 0])) > 0.01


def test_target_sees_branches_beside_each_other():
    # Both have twelve atoms, two of them with three neighbours.
    near, far = nx.path_graph(10), nx.path_graph(10)
    near.add_edges_from([(4, 10), (5, 11)])
    far.add_edges_from([(2, 10), (7, 11)])
    assert sorted(d for _, d in near.degree) == sorted(d for _, d in far.degree)
    assert target(near) != pytest.approx(target(far), abs=0.1)


def test_target_does_not_depend_on_numbering_or_neighbours_in_the_list():
    graph = two_rings(5, 6)
    types = list(range(11))
    order = np.random.default_rng(0).permutation(11)
    renumbered = nx.relabel_nodes(graph, {old: int(new) for new, old in enumerate(order)})
    shuffled = nx.Graph()
    shuffled.add_nodes_from(range(11))
    shuffled.add_edges_from(renumbered.edges)
    assert target(shuffled, [types[old] for old in order]) == pytest.approx(target(graph, types), abs=1e-6)
    dataset = molecules(700)  # more than are worked on at once
    last = dataset.graph(699)
    assert target(to_networkx(last, to_undirected=True), last.x[:, 0].tolist()) == pytest.approx(
        float(last.y), abs=1e-6
    )
