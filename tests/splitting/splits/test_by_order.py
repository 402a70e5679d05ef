"""Splitting by order: ties, tolerance, refinement."""

import math
import pickle

import pytest
import torch

from graphprism.splitting import Graph, by_order, orderings
from graphprism.splitting.graph import edges_of

from ..zoo import EMPTY, directed

INF = math.inf
STEP = directed([(0, 1)], 2)


def relation(low, high, dtype=torch.float64, **options):
    return int(by_order(torch.tensor([low, high], dtype=dtype), **options)(STEP))


def test_by_hand():
    graph = directed([(0, 1), (1, 0), (0, 2), (2, 2)], 3)
    split = by_order(torch.tensor([1, 5, 1]))
    assert split(graph).tolist() == [0, 1, 2, 2]
    assert split(graph).dtype == torch.long
    assert (split.num_relations, split.names) == (3, ("up", "down", "tie"))


def test_empty_graph():
    assert by_order("degree", "ppr", "features")(EMPTY).tolist() == []


def test_integers_compare_exactly():
    assert relation(2**62, 2**62 + 1, torch.long) == 0
    assert relation(2**62, 2**62 + 1, torch.long, tolerance=0.5) == 0


@pytest.mark.parametrize(
    ("dtype", "tied", "apart"),
    [
        (torch.float64, 1 + 1e-10, 1 + 1e-8),
        (torch.float32, 1 + 1e-6, 1 + 1e-4),
        (torch.float16, 1 + 1e-3, 1 + 1e-2),
        (torch.bfloat16, 1 + 1 / 128, 1 + 1 / 16),
    ],
)
def test_tolerance_follows_the_precision(dtype, tied, apart):
    assert relation(1, tied, dtype) == 2
    assert relation(1, apart, dtype) == 0
    assert relation(apart, 1, dtype) == 1


def test_tolerance_follows_the_values():
    assert relation(1e-30, 2e-30) == 0
    assert relation(1e30, 1e30 + 1e15) == 2
    three = directed([(0, 1)], 3)
    assert by_order(torch.tensor([0, 1e-13, 1], dtype=torch.float64))(three).tolist() == [2]
    assert by_order(torch.tensor([0, 1e-11, 1], dtype=torch.float64))(three).tolist() == [0]


def test_given_tolerance():
    assert relation(1.0, 1.05, tolerance=0.1) == 2
    assert relation(1.0, 1.2, tolerance=0.1) == 0
    assert relation(1.0, 1.6, tolerance=0.5) == relation(1.6, 1.0, tolerance=0.5) == 2
    assert relation(1.0, math.nextafter(1.0, 2.0), tolerance=0) == 0
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"`tolerance` must be in \[0, 1\), got"):
            by_order("degree", tolerance=wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(INF, INF, 2), (-INF, -INF, 2), (1, INF, 0), (INF, 1, 1), (-INF, 1, 0), (-INF, INF, 0), (INF, -INF, 1)],
)
def test_infinities_compare_naturally(low, high, expected, dtype):
    assert relation(low, high, dtype) == expected


def test_an_infinity_does_not_change_how_the_others_compare():
    graph = directed([(0, 1), (1, 2)], 4)
    assert by_order(torch.tensor([1, 1 + 1e-10, 2, INF], dtype=torch.float64))(graph).tolist() == [2, 0]


def test_largest_numbers():
    largest = torch.finfo(torch.float64).max
    assert relation(-largest, largest) == 0
    assert relation(largest, largest) == 2


def test_refinement_decides_ties_only():
    graph = directed([(0, 1), (1, 2), (2, 0), (2, 3)], 4)
    first, second, third = torch.tensor([1, 1, 2, 2]), torch.tensor([5, 4, 3, 3]), torch.tensor([0, 0, 7, 8])
    assert by_order(first)(graph).tolist() == [2, 0, 1, 2]
    assert by_order(first, second)(graph).tolist() == [1, 0, 1, 2]
    assert by_order(first, second, third)(graph).tolist() == [1, 0, 1, 0]


def test_no_ordering():
    with pytest.raises(ValueError, match="`by_order` must be given at least one ordering, got none"):
        by_order()


def test_many_chunks_are_one(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    graph = Graph(torch.randint(20, (2, 100), generator=generator), 20)
    names = ("degree", "ppr", "eigenvector", "random")
    whole = [by_order(name)(graph).tolist() for name in names]
    monkeypatch.setattr(f"{edges_of.__module__}._EDGES_PER_CHUNK", 7)
    assert [by_order(name)(graph).tolist() for name in names] == whole


def test_order_with_gradient():
    order = torch.tensor([1.0, 2.0], requires_grad=True)
    assert by_order(order)(STEP).tolist() == [0]


def test_repr_pickle_and_equality():
    split = by_order("degree", orderings.ppr, tolerance=0.1)
    assert repr(split) == "by_order('degree', ppr, tolerance=0.1)"
    assert repr(by_order(torch.zeros(4))) == "by_order(<order of 4 nodes>)"
    assert pickle.loads(pickle.dumps(split)) == split
    fixed = pickle.loads(pickle.dumps(by_order(torch.tensor([1, 2]))))
    assert fixed(STEP).tolist() == [0]
    assert by_order("degree") != by_order("core")
