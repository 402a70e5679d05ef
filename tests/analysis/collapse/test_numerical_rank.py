import numpy as np
import pytest
import torch

from graphprism.analysis.collapse import numerical_rank


def low_rank(n, f, rank):
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(n, rank, generator=generator, dtype=torch.float64)
    return left @ torch.randn(rank, f, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(20, 8), (8, 20), (200, 8)])
@pytest.mark.parametrize("rank", [1, 3, 8])
def test_rank_survives_rounding_and_equals_numpy(shape, rank, dtype):
    x = low_rank(*shape, rank).to(dtype)
    assert numerical_rank(x).item() == rank == np.linalg.matrix_rank(x.numpy())


def test_default_tolerance_is_that_of_the_type_of_the_input():
    tiny = torch.diag(torch.tensor([1.0, 1e-6, 1e-9], dtype=torch.float64))
    assert numerical_rank(tiny) == 3
    assert numerical_rank(tiny.float()) == 2  # 3 * 1.2e-7 < 1e-6
    assert numerical_rank(tiny.bfloat16()) == 1


@pytest.mark.parametrize("shape", [(100, 2), (2, 100)])
def test_default_tolerance_grows_with_the_larger_dimension(shape):
    x = torch.zeros(shape)
    x[0, 0], x[1, 1] = 1.0, 5e-6  # 2 * 1.2e-7 < 5e-6 < 100 * 1.2e-7
    assert numerical_rank(x) == 1
    assert numerical_rank(x[:2, :2]) == 2


def test_large_bfloat16_matrix_keeps_its_rank():
    assert numerical_rank(low_rank(5000, 4, 4).bfloat16()) == 4


def test_relative_tolerance():
    x = torch.diag(torch.tensor([10.0, 1.0, 0.1]))
    assert [numerical_rank(x, relative_tolerance=t).item() for t in (0.0, 0.05, 0.1, 0.5)] == [3, 2, 1, 1]
    with pytest.raises(ValueError, match="`relative_tolerance` must be in"):
        numerical_rank(x, relative_tolerance=1.0)
