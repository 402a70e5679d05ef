import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprism.analysis.certificate import structural_rank

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
