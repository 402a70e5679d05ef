import os

import pytest
import torch

from graphprism.ops.csr import BACKENDS, csr_sum
from graphprism.testing import tolerance

ROWPTR, COL = torch.tensor([0, 2, 2, 3, 6]), torch.tensor([1, 0, 2, 2, 2, 0])


@pytest.mark.parametrize("impl", ["reference", "embedding_bag"])
def test_by_hand(impl):
    dense = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    assert csr_sum(ROWPTR, COL, None, dense, impl=impl).tolist() == [[3, 30], [0, 0], [3, 30], [7, 70]]
    value = torch.tensor([1.0, 2.0, 3.0, 1.0, 1.0, -1.0])
    assert csr_sum(ROWPTR, COL, value, dense, impl=impl).tolist() == [[4, 40], [0, 0], [9, 90], [5, 50]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels", [1, 63, 64, 500])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_equals_reference(dtype, channels, index_dtype):
    torch.manual_seed(0)
    count = torch.randint(0, 9, (50,))
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), count.cumsum(0)]).to(index_dtype)
    col = torch.randint(0, 20, (int(rowptr[-1]),)).to(index_dtype)
    dense, value = (torch.randn(20, channels) / 3).to(dtype), torch.rand(col.numel()).to(dtype)
    expected = csr_sum(rowptr, col, value.double(), dense.double(), impl="reference").to(dtype)
    torch.testing.assert_close(csr_sum(rowptr, col, value, dense), expected, **tolerance(dtype))


def test_half_precision_is_summed_in_float32():
    # 4096 ones: a bfloat16 sum would stop at 256, where adding one no longer changes it
    dense = torch.ones(4096, 8, dtype=torch.bfloat16)
    rowptr, col = torch.tensor([0, 4096]), torch.arange(4096)
    assert csr_sum(rowptr, col, None, dense).eq(4096).all()


@pytest.mark.parametrize("impl", ["reference", "embedding_bag"])
@pytest.mark.parametrize(("rows", "table", "channels"), [(0, 3, 4), (3, 0, 4), (3, 3, 0), (3, 3, 4)])
def test_nothing_to_sum(impl, rows, table, channels):
    rowptr = torch.zeros(rows + 1, dtype=torch.long)
    out = csr_sum(rowptr, torch.empty(0, dtype=torch.long), None, torch.ones(table, channels), impl=impl)
    assert out.shape == (rows, channels)
    assert not out.any()


def test_an_implementation_that_is_missing_raises():
    with pytest.raises(ValueError, match=r"`impl` must be one of .* got 'fast'"):
        csr_sum(ROWPTR, COL, None, torch.ones(3, 1), impl="fast")


@pytest.fixture
def kernel_device():
    if "triton" not in BACKENDS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


def test_kernel_reads_arguments_in_any_layout(kernel_device):
    rowptr, col, value = (
        torch.stack([each, torch.zeros_like(each)], dim=1).to(kernel_device)[:, 0]
        for each in (ROWPTR, COL, torch.arange(6.0))
    )
    dense = torch.randn(4, 3).to(kernel_device).t()
    for weights in (value, None):
        expected = csr_sum(rowptr, col, weights, dense, impl="reference")
        torch.testing.assert_close(csr_sum(rowptr, col, weights, dense, impl="triton"), expected)


def test_kernel_has_a_row_for_each_row_without_channels(kernel_device):
    rowptr, col = (each.to(kernel_device) for each in (torch.tensor([0, 300]), torch.zeros(300, dtype=torch.long)))
    assert csr_sum(rowptr, col, None, torch.ones(3, 0, device=kernel_device), impl="triton").shape == (1, 0)
