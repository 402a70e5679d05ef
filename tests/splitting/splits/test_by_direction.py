"""Splitting one-way from mutual edges."""

from hypothesis import given, settings

from graphprism.splitting import by_direction

from ..zoo import EMPTY, directed, graphs


def test_by_hand():
    graph = directed([(0, 1), (1, 0), (1, 2), (1, 2), (3, 3), (2, 3)], 4)
    split = by_direction()
    assert split(graph).tolist() == [1, 1, 0, 0, 1, 0]
    assert (split.num_relations, split.names, repr(split)) == (2, ("one-way", "mutual"), "by_direction()")


def test_empty_graph():
    assert by_direction()(EMPTY).tolist() == []


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graph=graphs())
def test_mutual_means_that_the_edge_back_exists(graph):
    pairs = [tuple(pair) for pair in graph.edge_index.t().tolist()]
    assert by_direction()(graph).tolist() == [int((b, a) in pairs) for a, b in pairs]
