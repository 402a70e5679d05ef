"""Splitting by any function, and what passes for a split."""

import pickle

import pytest
import torch

from graphprism.splitting import Graph, Split, by_direction, by_function, by_order, resolve_split

GRAPH = Graph(torch.tensor([[0, 1, 2], [1, 2, 2]]), 3)


def loops(graph):
    return graph.edge_index[0] == graph.edge_index[1]


def test_hard_and_soft():
    assert by_function(loops)(GRAPH).tolist() == [0, 0, 1]
    assert by_function(loops)(GRAPH).dtype == torch.long
    scores = torch.tensor([[0.5, -1.0], [0.0, 2.0], [1.0, 1.0]])
    assert by_function(lambda graph: scores, 2)(GRAPH).tolist() == scores.tolist()


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([0, 1, 1], TypeError, r"`f\(graph\)` must be a torch.Tensor, got list"),
        (torch.tensor([0, 1]), ValueError, r"`f\(graph\)` must have shape \[3\], got \[2\]"),
        (torch.zeros(3, 2).long(), ValueError, r"`f\(graph\)` must have shape \[3\], got \[3, 2\]"),
        (torch.zeros(3, 3), ValueError, r"`f\(graph\)` must have shape \[3, 2\], got \[3, 3\]"),
        (torch.zeros(2, 2), ValueError, r"`f\(graph\)` must have shape \[3, 2\], got \[2, 2\]"),
        (torch.zeros(()), ValueError, r"`f\(graph\)` must have shape \[3\], got \[\]"),
        (torch.tensor([0, 2, 1]), ValueError, r"`f\(graph\)` must hold numbers in \[0, 2\), got 2"),
        (torch.tensor([0, 0.5, 1]), ValueError, r"`f\(graph\)` must hold whole numbers, got 0.5"),
        (torch.full((3, 2), float("nan")), ValueError, r"`f\(graph\)` must hold finite scores, got nan"),
    ],
)
def test_bad_result(values, error, message):
    def f(graph):
        return values

    with pytest.raises(error, match=message):
        by_function(f, num_relations=2)(GRAPH)


@pytest.mark.parametrize("values", [torch.tensor([0, 1]), torch.tensor([0.5, 1.5])])
def test_one_value_per_node_is_an_ordering(values):
    graph = Graph(torch.tensor([[0, 1, 0], [1, 0, 1]]), 2)
    words = r"must have shape \[3\], got \[2\]: one value per node is an ordering, `by_order\(f\)`"
    with pytest.raises(ValueError, match=words):
        resolve_split(lambda _: values)(graph)
    with pytest.raises(ValueError, match=r"one value per node is an ordering, `by_order\(values\)`"):
        resolve_split(values)(graph)
    assert by_order(values)(graph).tolist() == [0, 1, 0]


def test_names():
    assert by_function(loops, names=["edge", "loop"]).num_relations == 2
    assert by_function(loops, 2, ["edge", "loop"]).names == ("edge", "loop")
    with pytest.raises(ValueError, match="`names` must have one entry for each of 3 relations, got 2"):
        by_function(loops, 3, ["edge", "loop"])
    with pytest.raises(ValueError, match="`num_relations` must be at least 1, got 0"):
        by_function(loops, 0)


def test_not_a_function():
    with pytest.raises(TypeError, match="`f` must be a function of a graph, got str"):
        by_function("degree")


def test_resolve_split():
    assert resolve_split("degree") == by_order("degree")
    assert resolve_split(by_direction()) == by_direction()
    assert resolve_split(loops)(GRAPH).tolist() == [0, 0, 1]
    assert resolve_split(torch.tensor([4, 0, 1]))(GRAPH).tolist() == [4, 0, 1]
    assert resolve_split(torch.rand(3, 5)).num_relations == 5
    assert isinstance(resolve_split("core"), Split)
    with pytest.raises(ValueError, match="`split` must have one of the orderings"):
        resolve_split("edge_attr")
    with pytest.raises(TypeError, match="`split` must be a text, a Split, a tensor or a function, got int"):
        resolve_split(3)
    with pytest.raises(ValueError, match=r"`split` must have shape \[E\] or \[E, R\] as a tensor, got \[\]"):
        resolve_split(torch.tensor(3))


def test_repr_and_pickle():
    split = by_function(loops, names=["edge", "loop"])
    assert repr(split) == "by_function(loops, num_relations=2, names=('edge', 'loop'))"
    assert repr(resolve_split(torch.tensor([4, 0, 1]))) == "by_function(<relations of 3 edges>)"
    assert pickle.loads(pickle.dumps(split)) == split
