"""Products of splits."""

import pickle

import pytest
import torch

from graphprism.splitting import Graph, by_attribute, by_direction, by_function, by_order, by_soft_order

from ..zoo import EMPTY

GRAPH = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]]), 3, edge_attr=torch.tensor([0, 1, 1, 0]))
ORDER = torch.tensor([0, 1, 1])


def test_numbering_and_names():
    product = by_order(ORDER) * by_attribute("edge_attr", num_relations=2)
    assert product(GRAPH).tolist() == [0, 1 + 3, 2 + 3, 2]
    assert product.num_relations == 6
    assert product.names == ("up,0", "down,0", "tie,0", "up,1", "down,1", "tie,1")


def test_last_factor_may_be_unknown():
    product = by_order(ORDER) * by_attribute("edge_attr")
    assert product(GRAPH).tolist() == [0, 4, 5, 2]
    assert (product.num_relations, product.names) == (None, None)
    with pytest.raises(ValueError, match=r"every factor of a product but the last .*by_attribute\('edge_attr'\)"):
        by_attribute("edge_attr") * by_order("degree")
    with pytest.raises(ValueError, match="every factor of a product but the last"):
        product * by_direction()


def test_unnamed_factor_counts():
    product = by_direction() * by_function(lambda graph: graph.edge_attr, num_relations=2)
    assert product.names == ("one-way,0", "mutual,0", "one-way,1", "mutual,1")


def test_soft_times_hard_and_hard_times_soft():
    soft, hard = by_soft_order(ORDER, temperature=0.7), by_attribute("edge_attr", num_relations=2)
    scores, one_hot = soft(GRAPH), torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0]])
    for edge in range(4):
        for a in range(3):
            for b in range(2):
                expected = scores[edge, a] * one_hot[edge, b]
                assert (soft * hard)(GRAPH)[edge, a + 3 * b] == expected
                assert (hard * soft)(GRAPH)[edge, b + 2 * a] == expected
    assert (soft * hard).names[3] == "up,1"


def test_soft_times_soft():
    one, two = by_soft_order(ORDER, temperature=0.7), by_soft_order(torch.tensor([3.0, 1.0, 2.0]))
    expected = torch.einsum("ea,eb->eba", one(GRAPH), two(GRAPH)).flatten(1)
    torch.testing.assert_close((one * two)(GRAPH), expected)


def test_soft_times_unknown():
    with pytest.raises(ValueError, match=r"every factor of a product with a soft split .*by_attribute\('edge_attr'\)"):
        (by_soft_order(ORDER) * by_attribute("edge_attr"))(GRAPH)


def test_empty_graph():
    assert (by_order("degree") * by_attribute("edge_attr"))(EMPTY).tolist() == []
    assert (by_soft_order("degree") * by_direction())(EMPTY).shape == (0, 6)


def test_times_something_else():
    with pytest.raises(TypeError, match="unsupported operand"):
        by_order("degree") * 3


def test_repr_pickle_and_frozen():
    product = by_order("degree") * by_attribute("edge_attr")
    assert repr(product) == "by_order('degree') * by_attribute('edge_attr')"
    assert repr(by_direction() * (by_direction() * by_direction())) == (
        "by_direction() * (by_direction() * by_direction())"
    )
    assert pickle.loads(pickle.dumps(product)) == product
    with pytest.raises(AttributeError):
        product.num_relations = 3
