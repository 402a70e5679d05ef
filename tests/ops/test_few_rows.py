"""Products with a matrix of few rows, against those of PyTorch; `TRITON_INTERPRET=1` runs the kernel on the CPU."""

import os

import pytest
import torch

from graphprism.ops.mixed_linear import FEW_ROWS, few_rows_product
from tests.ops.cases import normal

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]


@pytest.fixture
def device():
    if "triton" not in FEW_ROWS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("size", [(3, 2, 64), (3, 3, 4096), (1, 1, 5), (9, 8, 1025), (3, 2, 0)], ids=str)
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_equals_the_product(size, adds, dtype, device):
    rows, columns, length = size
    matrix, dense = (normal(*sizes, dtype=dtype).detach().to(device) for sizes in ((rows, columns), (columns, length)))
    added = normal(length, dtype=dtype, seed=1).detach().to(device) if adds else None
    expected = (matrix.double() @ dense.double() + (0 if added is None else added.double())).to(dtype)
    torch.testing.assert_close(few_rows_product(matrix, dense, added, impl="triton"), expected)


def test_rows_in_any_layout(device):
    matrix, dense = (normal(*sizes, dtype=torch.float32).detach().to(device) for sizes in ((2, 3), (40, 3)))
    torch.testing.assert_close(few_rows_product(matrix, dense.t(), impl="triton"), matrix @ dense.t())
