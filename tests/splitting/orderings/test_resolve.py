"""From a name, a tensor or a function to values."""

import pytest
import torch

from graphprism.splitting import ORDERINGS, Graph, by_order, order_values, orderings, resolve_ordering

PATH = Graph(torch.tensor([[0, 1], [1, 2]]), 3)


def test_names_tensors_and_functions():
    assert resolve_ordering("degree") is orderings.degree
    assert resolve_ordering(orderings.core) is orderings.core
    assert resolve_ordering(torch.tensor([3, 1, 2]))(PATH).tolist() == [3, 1, 2]
    assert set(ORDERINGS) == {"degree", "random", "features", "ppr", "core", "triangles", "eigenvector", "bfs"}


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"`ordering` must be one of \['bfs', 'core', 'degree', .*got 'dgree'"):
        by_order("dgree")


def test_neither_name_nor_tensor_nor_function():
    with pytest.raises(TypeError, match="must be a name, a tensor or a function of a graph, got int"):
        by_order(3)


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        (torch.zeros(2), ValueError, r"`order` must have shape \[3\], got \[2\]"),
        (torch.zeros(3, 1), ValueError, r"`order` must have shape \[3\], got \[3, 1\]"),
        (torch.tensor([0.0, float("nan"), 1.0]), ValueError, "`order` must not hold NaN, got 1 NaN among 3 values"),
        (torch.zeros(3, dtype=torch.complex64), TypeError, "`order` must hold integers, got torch.complex64"),
        (lambda graph: [0, 1, 2], TypeError, "`order` must be a torch.Tensor, got list"),
        (torch.zeros(3, device="meta"), ValueError, "`order` and `edge_index` must be on the same device"),
        (torch.zeros(3).to(torch.float8_e5m2), TypeError, "`order` must have one of the types .*float8_e5m2"),
    ],
)
def test_bad_order(order, error, message):
    with pytest.raises(error, match=message):
        by_order(order)(PATH)


def test_order_of_truth_values():
    assert order_values(torch.tensor([True, False, True]), PATH).tolist() == [1, 0, 1]
    assert by_order(torch.tensor([True, False, True]))(PATH).tolist() == [1, 0]
