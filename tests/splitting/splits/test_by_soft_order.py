"""Soft splits by order."""

import math

import pytest
import torch

from graphprism.splitting import by_order, by_soft_order

from ..zoo import EMPTY, directed

GRAPH = directed([(0, 1), (1, 0), (1, 2), (2, 2)], 3)


def test_by_hand():
    scores = by_soft_order(torch.tensor([-4.0, 2.0, 3.0]), temperature=0.5)(GRAPH)
    rise, small = math.tanh(1.5 / 0.5), math.tanh(0.25 / 0.5)
    expected = [[rise, 0, 1 - rise], [0, rise, 1 - rise], [small, 0, 1 - small], [0, 0, 1]]
    torch.testing.assert_close(scores, torch.tensor(expected))
    split = by_soft_order("degree")
    assert (split.num_relations, split.names) == (3, ("up", "down", "tie"))


def test_constant_and_zero_orders_are_ties():
    for order in (torch.zeros(3), torch.ones(3).long()):
        assert by_soft_order(order)(GRAPH).tolist() == [[0, 0, 1]] * 4


def test_empty_graph():
    assert by_soft_order("degree")(EMPTY).shape == (0, 3)


def test_rounding_gives_no_score_at_any_temperature():
    order = torch.tensor([0.1 + 0.2, 0.3, 1.0], dtype=torch.float64)
    assert order[0] != order[1]
    assert by_soft_order(order, temperature=1e-15)(GRAPH)[:2].tolist() == [[0, 0, 1]] * 2


def test_smallest_temperature():
    order = torch.tensor([0, 1, 2])
    scores = by_soft_order(order, temperature=5e-324)(GRAPH)
    assert scores.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_gradient_reaches_the_order():
    order = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    by_soft_order(order)(GRAPH)[0, 0].backward()
    assert float(order.grad[1]) > 0 > float(order.grad[0])
    assert float(order.grad[2]) == 0
    flat = torch.zeros(3, requires_grad=True)
    by_soft_order(flat)(GRAPH).sum().backward()
    assert flat.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("temperature", [0, -1.0, math.inf, math.nan])
def test_bad_temperature(temperature):
    with pytest.raises(ValueError, match="`temperature` must be positive and finite, got"):
        by_soft_order("degree", temperature=temperature)


def test_infinite_order():
    order = torch.tensor([0.0, math.inf, 1.0])
    with pytest.raises(ValueError, match="`order` must be finite for a soft split, got 1 infinite values"):
        by_soft_order(order)(GRAPH)
    assert by_order(order)(GRAPH).tolist() == [0, 1, 1, 2]


def test_repr():
    assert repr(by_soft_order("ppr", temperature=0.1)) == "by_soft_order('ppr', temperature=0.1)"
