"""Laws that every ordering and every split obeys."""

from functools import partial

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphprism.splitting import (
    ORDERINGS,
    Graph,
    by_attribute,
    by_community,
    by_curvature,
    by_direction,
    by_function,
    by_order,
    by_similarity,
    by_soft_order,
    order_values,
    orderings,
)
from tests.pairwise import IS_SLOW

from .zoo import SYMMETRIC, batch_of, directed, graphs, renumber

EVERY_ORDERING = {
    **ORDERINGS,
    "degree in": partial(orderings.degree, kind="in"),
    "degree total": partial(orderings.degree, kind="total"),
    "random 7": partial(orderings.random, seed=7),
}
INDEPENDENT = {name: ordering for name, ordering in EVERY_ORDERING.items() if not name.startswith("random")}


def reversed_degree(graph):
    return -orderings.degree(graph).float() / 3


def loops(graph):
    return graph.edge_index[0] == graph.edge_index[1]


EVERY_SPLIT = {
    **{f"by_order {name}": by_order(ordering) for name, ordering in EVERY_ORDERING.items()},
    "float32": by_order(reversed_degree),
    "refined": by_order("degree", "ppr"),
    "refined twice": by_order("bfs", "features", "core"),
    "attribute": by_attribute("edge_attr"),
    "direction": by_direction(),
    "function": by_function(loops, num_relations=2),
    "product": by_order("degree") * by_direction() * by_attribute("edge_attr"),
    "soft": by_soft_order("ppr", temperature=0.1),
    "soft product": by_soft_order("features") * by_direction(),
    "similarity": by_similarity(),
    "curvature": by_curvature(),
    "community": by_community(),
}
BY_NUMBERS = ("random", "community")  # where equal nodes are told apart by their numbers
NUMBERING_INDEPENDENT = {n: split for n, split in EVERY_SPLIT.items() if not any(each in n for each in BY_NUMBERS)}
ORDER_SPLITS = {name: split for name, split in EVERY_SPLIT.items() if split.names == ("up", "down", "tie")}
few = settings(max_examples=30 if IS_SLOW else 10, deadline=None, derandomize=True)


def assert_same(result, expected):
    if result.is_floating_point():
        torch.testing.assert_close(result, expected)
    else:
        assert result.tolist() == expected.tolist()


@few
@given(graph=graphs(), seed=st.integers(0, 1000))
@pytest.mark.parametrize("name", NUMBERING_INDEPENDENT)
def test_split_does_not_depend_on_numbering(name, graph, seed):
    split = NUMBERING_INDEPENDENT[name]
    permutation = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    assert_same(split(renumber(graph, permutation)), split(graph))


@pytest.mark.parametrize("graph", SYMMETRIC.values(), ids=SYMMETRIC)
@pytest.mark.parametrize("name", ["ppr", "eigenvector", "degree", "core", "triangles", "bfs"])
def test_equal_nodes_tie_under_every_numbering(name, graph):
    expected = by_order(name)(graph)
    for seed in range(5):
        permutation = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
        assert by_order(name)(renumber(graph, permutation)).tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["ppr", "eigenvector"])
@pytest.mark.parametrize("graph_name", ["cycle", "complete", "petersen"])
def test_every_edge_of_a_vertex_transitive_graph_is_a_tie(name, graph_name):
    assert set(by_order(name)(SYMMETRIC[graph_name]).tolist()) == {2}


@few
@given(graph=graphs(), seed=st.integers(0, 1000))
@pytest.mark.parametrize("name", EVERY_SPLIT)
def test_relations_permute_with_the_edges(name, graph, seed):
    order = torch.randperm(graph.edge_index.size(1), generator=torch.Generator().manual_seed(seed))
    shuffled = Graph(graph.edge_index[:, order], graph.num_nodes, x=graph.x, edge_attr=graph.edge_attr[order])
    assert_same(EVERY_SPLIT[name](shuffled), EVERY_SPLIT[name](graph)[order])


@few
@given(parts=st.lists(graphs(max_nodes=7), min_size=1, max_size=4))
@pytest.mark.parametrize("name", EVERY_ORDERING)
def test_ordering_of_a_batch_is_that_of_its_parts(name, parts):
    together = order_values(EVERY_ORDERING[name], batch_of(parts))
    assert_same(together, torch.cat([order_values(EVERY_ORDERING[name], part) for part in parts]))


@few
@given(parts=st.lists(graphs(max_nodes=7), min_size=1, max_size=4))
@pytest.mark.parametrize("name", EVERY_SPLIT)
def test_split_of_a_batch_is_that_of_its_parts(name, parts):
    assert_same(EVERY_SPLIT[name](batch_of(parts)), torch.cat([EVERY_SPLIT[name](part) for part in parts]))


def test_tolerance_of_a_part_does_not_see_the_other_parts():
    small = directed([(0, 1)], 2, x=torch.tensor([[1e-6], [2e-6]]), edge_attr=torch.zeros(1).long())
    large = directed([(0, 1)], 2, x=torch.tensor([[1e12], [2e12]]), edge_attr=torch.zeros(1).long())
    assert by_order("features")(batch_of([small, large])).tolist() == [0, 0]


@few
@given(graph=graphs())
@pytest.mark.parametrize("name", ORDER_SPLITS)
def test_up_and_down_have_no_cycle(name, graph):
    relation = ORDER_SPLITS[name](graph)
    relation = relation.argmax(dim=1) if relation.dim() == 2 else relation
    for direction in (0, 1):
        edges = graph.edge_index[:, relation == direction].t().tolist()
        assert nx.is_directed_acyclic_graph(nx.DiGraph(edges))


@few
@given(graph=graphs(symmetric=True), values=st.lists(st.floats(-1, 1), min_size=12, max_size=12))
def test_reversing_the_edges_swaps_up_and_down(graph, values):
    values = torch.tensor(values, dtype=torch.float64)[: graph.num_nodes]
    backward = Graph(graph.edge_index.flip(0), graph.num_nodes)
    for ordering in ["degree", "core", "triangles", "ppr", "eigenvector", "bfs", values, values.float()]:
        swapped = torch.tensor([1, 0, 2])[by_order(ordering)(graph)]
        assert by_order(ordering)(backward).tolist() == swapped.tolist()


@few
@given(graph=graphs())
@pytest.mark.parametrize("name", ORDER_SPLITS)
def test_loops_are_ties(name, graph):
    relation = ORDER_SPLITS[name](graph)
    relation = relation.argmax(dim=1) if relation.dim() == 2 else relation
    assert bool((relation[loops(graph)] == 2).all())


@few
@given(graph=graphs())
@pytest.mark.parametrize("name", ["degree", "ppr", "features", "random"])
def test_soft_split_is_the_hard_one_at_low_temperature(name, graph):
    scores, relation = by_soft_order(name, temperature=1e-12)(graph), by_order(name)(graph)
    torch.testing.assert_close(scores, torch.nn.functional.one_hot(relation, 3).float())
    mild = by_soft_order(name, temperature=0.5)(graph)
    assert bool((mild >= 0).all())
    torch.testing.assert_close(mild.sum(dim=1), torch.ones(mild.size(0)))


@few
@given(graph=graphs())
def test_product_is_associative_and_its_number_has_both_factors(graph):
    a, b, c = by_order("degree"), by_direction(), by_attribute("edge_attr", num_relations=4)
    number = (a * b * c)(graph)
    assert number.tolist() == (a * (b * c))(graph).tolist()
    assert (number % 3).tolist() == a(graph).tolist()
    assert (number // 3 % 2).tolist() == b(graph).tolist()
    assert (number // 6).tolist() == c(graph).tolist()
