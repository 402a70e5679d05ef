from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprism.analysis.certificate import directions, structural_rank

MATRICES = st.integers(1, 4).flatmap(
    lambda columns: st.lists(st.tuples(*[st.integers(-3, 3)] * columns), min_size=1, max_size=8)
)


@given(MATRICES, st.floats(1e-3, 1e3))
def test_equals_the_rank_of_a_singular_value_decomposition(rows, factor):
    matrix = torch.tensor(rows, dtype=torch.float64)
    assert structural_rank(matrix * factor).tolist() == [torch.linalg.matrix_rank(matrix).item()]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=15))
def test_all_graphs_at_once_equal_each_graph_alone(rows):
    matrix, batch = torch.tensor(rows)[:, :3].double(), torch.tensor(rows)[:, 3]
    alone = [int(structural_rank(matrix[batch == graph])) if (batch == graph).any() else 0 for graph in range(5)]
    assert structural_rank(matrix, batch, num_graphs=5).tolist() == alone


@pytest.mark.parametrize("block", [1, 3, 64])
@given(MATRICES, st.floats(1e-3, 1e3))
def test_blocks_equal_the_rank_of_a_singular_value_decomposition(block, rows, factor):
    matrix = torch.tensor(rows, dtype=torch.float64)
    with mock.patch.multiple(directions, _LARGEST_RANK_TOGETHER=0, _BLOCK=block):
        assert structural_rank(matrix * factor).tolist() == [torch.linalg.matrix_rank(matrix).item()]


@pytest.mark.parametrize("num_rows", [50, 150, 700])
@pytest.mark.parametrize("rank", [1, 40, 99, 120])
def test_many_relations_at_once_and_in_blocks_agree(num_rows, rank):
    """Products of thin matrices, and relations that do not occur among the others."""
    random = torch.Generator().manual_seed(rank)
    left, right = torch.randn(num_rows, rank, generator=random), torch.randn(rank, 120, generator=random)
    matrix = torch.zeros(num_rows, 150, dtype=torch.float64)
    matrix[:, 10:130] = left.double() @ right.double()
    assert structural_rank(matrix).item() == min(num_rows, rank)
    with mock.patch.object(directions, "_LARGEST_RANK_TOGETHER", 1000):
        assert structural_rank(matrix).item() == min(num_rows, rank)


def test_a_relation_that_repeats_another_adds_no_rank_but_where_one_row_of_many_differs():
    """Many more rows than relations: some of the rows are looked at first."""
    matrix = torch.randint(1, 9, (1201, 40), generator=torch.Generator().manual_seed(0)).double()
    matrix[:, 39] = matrix[:, 0]
    assert structural_rank(matrix[:, :39]).item() == 39
    assert structural_rank(matrix).item() == 39
    matrix[777, 39] += 1
    assert structural_rank(matrix).item() == 40


def test_small_and_large_graphs_of_a_batch():
    random = torch.Generator().manual_seed(0)
    matrix = torch.randint(0, 3, (400, 60), generator=random).double()
    batch = torch.tensor([0] * 5 + [1] * 300 + [3] * 95)[torch.randperm(400, generator=random)]
    assert structural_rank(matrix, batch, num_graphs=5).tolist() == [5, 60, 0, 60, 0]


def test_rows_of_very_different_length():
    """The rank of the matrix as it is would drown in the first row's rounding."""
    assert structural_rank(torch.tensor([[1e14, 1e14], [1e-3, 0.0]], dtype=torch.float64)).item() == 2
    assert structural_rank(torch.tensor([[1e300, 1e300], [1e-300, 1e-300]], dtype=torch.float64)).item() == 1


def test_rows_parallel_up_to_rounding_have_rank_one():
    thirds = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64) / 3
    assert structural_rank(torch.stack([thirds * 0.1, thirds * 0.7, -thirds * 1.3])).item() == 1


def test_the_tolerance_is_the_border():
    matrix = torch.tensor([[1.0, 0.0], [1.0, 1e-4]], dtype=torch.float64)
    assert structural_rank(matrix, tolerance=1e-3).item() == 1
    assert structural_rank(matrix, tolerance=1e-6).item() == 2


def test_nothing_in():
    assert structural_rank(torch.zeros(3, 2)).tolist() == [0]
    assert structural_rank(torch.zeros(0, 2)).tolist() == [0]
    assert structural_rank(torch.zeros(3, 0)).tolist() == [0]


def test_bad_input():
    with pytest.raises(ValueError, match="`in_degrees` must not hold NaN"):
        structural_rank(torch.full((2, 2), float("nan")))
