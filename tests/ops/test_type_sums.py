import os

import pytest
import torch

from graphprism.ops.batched.type_rows import READ_ROWS, read_rows, sum_types, type_rows, type_sums
from tests.ops.cases import normal

TYPES = torch.tensor([[3, 0, -1, 3, 1], [2, 2, 0, -1, 5]], dtype=torch.int32)


def index_add(rows, types, num_types):
    """Sums one after another, for types that are there."""
    there = (types >= 0) & (types < num_types)
    return rows.new_zeros(num_types, rows.size(1)).index_add(0, types[there].long(), rows[there])


def test_by_hand():
    rows = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0], [1000.0, 2000.0], [1e4, 2e4]], requires_grad=True)
    out = type_sums(rows, TYPES[0], 4)
    assert out.tolist() == [[10, 20], [1e4, 2e4], [0, 0], [1001, 2002]]
    (grad,) = torch.autograd.grad(out, rows, torch.arange(8.0).view(4, 2))
    assert grad.tolist() == [[6, 7], [0, 1], [0, 0], [6, 7], [2, 3]]


def test_sums_of_one_and_of_many_runs():
    rows = normal(2, 5, 3)
    expected = torch.stack([index_add(*each, 5) for each in zip(rows, TYPES, strict=True)])
    torch.testing.assert_close(torch.stack([type_sums(*each, 5) for each in zip(rows, TYPES, strict=True)]), expected)
    torch.testing.assert_close(torch.vmap(type_sums, in_dims=(0, 0, None))(rows, TYPES, 5), expected)
    shared = torch.vmap(type_sums, in_dims=(2, None, None))(rows.movedim(0, 2), TYPES[1], 5)
    torch.testing.assert_close(shared, torch.stack([index_add(each, TYPES[1], 5) for each in rows]))


def test_gradients():
    assert torch.autograd.gradcheck(lambda rows: type_sums(rows, TYPES[1], 5), normal(5, 3))
    many = torch.vmap(type_sums, in_dims=(0, 0, None))
    assert torch.autograd.gradcheck(lambda rows: many(rows, TYPES, 5), normal(2, 5, 3))


def test_the_adjoint_of_rows():
    rows, weight, types = normal(5, 3), normal(4, 3, seed=1), TYPES[0].clamp(min=0).long()
    torch.testing.assert_close((type_sums(rows, types, 4) * weight).sum(), (rows * type_rows(types, weight)).sum())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_sums_in_float32_at_least_and_gradients_in_the_type_of_the_rows(dtype):
    rows, types = torch.full((2, 300, 2), 1.0078125, dtype=dtype, requires_grad=True), torch.zeros(2, 300)
    out = torch.vmap(type_sums, in_dims=(0, 0, None))(rows, types.int(), 1)
    assert out.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert out.flatten().tolist() == [300 * 1.0078125] * 4  # all of it is exact, and too fine for 16 bits
    (grad,) = torch.autograd.grad(out.sum(), rows)
    assert grad.dtype == dtype
    assert grad.eq(1).all()


def test_sums_come_in_the_type_asked_for():
    types, rows = TYPES[:1], torch.ones(1, 5, 2)
    assert sum_types(types, rows, 4).dtype == read_rows(types, rows).dtype == torch.float32
    for dtype in (torch.float64, torch.bfloat16):
        assert sum_types(types, rows, 4, dtype).dtype == read_rows(types, rows, dtype).dtype == dtype


def test_one_type_for_every_row():
    with pytest.raises(ValueError, match=r"`types` must have shape \[5\], got \[4\]"):
        type_sums(normal(5, 3), TYPES[0, :4], 4)


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
LOW = torch.float16 if INTERPRETED else torch.bfloat16  # the interpreter multiplies no bfloat16


@pytest.mark.parametrize("impl", ["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float32, LOW], ids=str)
@pytest.mark.parametrize(
    ("runs", "rows", "num_types", "channels"), [(2, 70, 3, 20), (2, 150, 130, 40), (1, 0, 65, 3), (2, 900, 5, 20)]
)
def test_kernels_leave_out_types_that_are_none(runs, rows, num_types, channels, dtype, impl):
    if impl not in READ_ROWS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device = "cpu" if impl == "reference" or INTERPRETED else "cuda"
    generator = torch.Generator().manual_seed(0)
    types = torch.randint(-1, num_types + 2, (runs, rows), generator=generator, dtype=torch.int32).to(device)
    values = torch.randn(runs, rows, channels, generator=generator).to(device, dtype)
    table = torch.randn(runs, num_types, channels, generator=generator).to(device)
    sums = sum_types(types, values, num_types, torch.float32, impl=impl)
    found = read_rows(types, table, dtype, impl=impl)
    assert (sums.dtype, found.dtype) == (torch.float32, dtype)
    for run in range(runs):
        expected = index_add(values[run].double(), types[run], num_types)
        torch.testing.assert_close(sums[run].double(), expected, rtol=1e-6, atol=1e-5)
        there = (types[run] >= 0) & (types[run] < num_types)
        assert found[run, there].equal(table[run, types[run, there].long()].to(dtype))
        assert found[run, ~there].count_nonzero() == 0
