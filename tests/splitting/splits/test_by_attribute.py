"""Splitting by an edge attribute."""

import pytest
import torch

from graphprism.splitting import Graph, by_attribute

from ..zoo import EMPTY

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def with_attribute(values):
    return Graph(EDGES, 3, edge_attr=values)


@pytest.mark.parametrize("dtype", [torch.long, torch.int32, torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [(), (1,)])
def test_value_is_the_relation(dtype, columns):
    graph = with_attribute(torch.tensor([2, 0, 1], dtype=dtype).reshape(3, *columns))
    for num_relations in (None, 3):
        relation = by_attribute("edge_attr", num_relations)(graph)
        assert relation.tolist() == [2, 0, 1]
        assert relation.dtype == torch.long


def test_truth_values():
    assert by_attribute("edge_attr", 2)(with_attribute(torch.tensor([True, False, True]))).tolist() == [1, 0, 1]


def test_any_name():
    graph = with_attribute(None)
    object.__setattr__(graph, "bond", torch.tensor([1, 1, 0]))
    assert by_attribute("bond")(graph).tolist() == [1, 1, 0]


def test_empty_graph():
    assert by_attribute("edge_attr", 2)(EMPTY).tolist() == []


def test_result_has_its_own_memory():
    attribute = torch.tensor([0, 1, 2])
    by_attribute("edge_attr")(with_attribute(attribute)).zero_()
    assert attribute.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (None, ValueError, "must have an attribute `edge_attr` with one whole number per edge, got a graph without it"),
        ([0, 1, 2], TypeError, "`edge_attr` must be a torch.Tensor, got list"),
        (torch.tensor([0, 1]), ValueError, r"`edge_attr` must have shape \[3\], got \[2\]"),
        (torch.zeros(3, 1, 1), ValueError, r"`edge_attr` must have shape \[3\], got \[3, 1, 1\]"),
        (torch.eye(3), ValueError, r"`edge_attr` must have one column .* got \[3, 3\]: .*by_function"),
        (torch.tensor([0.0, 0.5, 1.0]), ValueError, "`edge_attr` must hold whole numbers, got 0.5"),
        (torch.tensor([0.0, float("nan"), 1.0]), ValueError, "`edge_attr` must hold whole numbers, got nan"),
        (torch.tensor([0.0, float("inf"), 1.0]), ValueError, "`edge_attr` must hold whole numbers, got inf"),
        (torch.tensor([0, -1, 1]), ValueError, r"`edge_attr` must hold numbers in \[0, 3\), got -1"),
        (torch.tensor([0, 3, 1]), ValueError, r"`edge_attr` must hold numbers in \[0, 3\), got 3"),
        (torch.zeros(3, dtype=torch.complex64), TypeError, "`edge_attr` must hold integers, got torch.complex64"),
    ],
)
def test_bad_attribute(values, error, message):
    with pytest.raises(error, match=message):
        by_attribute("edge_attr", num_relations=3)(with_attribute(values))


@pytest.mark.parametrize(
    ("value", "wanted"), [(-1.0, "that are not negative"), (1e30, r"in \[0, 9223372036854775808\)")]
)
def test_bad_attribute_without_number_of_relations(value, wanted):
    with pytest.raises(ValueError, match=rf"`edge_attr` must hold numbers {wanted}, got"):
        by_attribute("edge_attr")(with_attribute(torch.tensor([0.0, value, 1.0])))


def test_number_of_relations():
    assert by_attribute("bond", 3).names == ("0", "1", "2")
    assert by_attribute("bond").num_relations is None
    with pytest.raises(ValueError, match="`num_relations` must be at least 1, got 0"):
        by_attribute("bond", 0)


def test_repr():
    assert repr(by_attribute("bond")) == "by_attribute('bond')"
    assert repr(by_attribute("bond", 4)) == "by_attribute('bond', num_relations=4)"
