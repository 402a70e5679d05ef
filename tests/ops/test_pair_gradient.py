"""The gradient of matrices of pairs; `TRITON_INTERPRET=1` runs the kernel where triton is."""

import os

import pytest
import torch

from graphprism.ops.batched.padded_products import side_by_side
from graphprism.ops.batched.pair_products import GRADIENT, TILE, pair_gradient, reads_active
from graphprism.testing import tolerance
from tests.ops.tables import NOTHING

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# what kernels take, but Triton's interpreter cannot multiply bfloat16
SHORT = torch.float16 if INTERPRETED else torch.bfloat16


@pytest.fixture(params=["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def impl(request):
    if request.param not in GRADIENT:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return request.param


class Case:
    """Rows of two layers, a matrix, and which tiles are active."""

    def __init__(self, runs, rows, channels, relations, impl):
        device, dtype = "cpu" if impl == "reference" or INTERPRETED else "cuda", torch.float64
        dtype = dtype if impl == "reference" else SHORT
        generator = torch.Generator().manual_seed(0)

        def draw(*size):
            return torch.randn(*size, generator=generator, dtype=torch.float64).to(device, dtype)

        self.x, self.back = draw(2 * runs, rows, channels), draw(2 * runs, rows, relations * channels)
        self.matrix = draw(runs, relations * channels, channels).transpose(1, 2)
        tiles = -(-rows // TILE)
        self.active = torch.randint(1 << relations, (runs, tiles), generator=generator, dtype=torch.int32).to(device)
        self.active[0] = 0  # nobody sends anything
        bits = self.active[..., None] >> torch.arange(relations, device=device) & 1
        there = bits.bool().repeat_interleave(TILE, dim=1)[:, :rows].repeat_interleave(channels, dim=2).repeat(2, 1, 1)
        exact = torch.bmm(torch.where(there, self.back.double(), 0).transpose(1, 2), self.x.double())
        self.exact = exact.unflatten(1, (relations, channels)).transpose(2, 3)
        self.back[~there] = NOTHING  # what is not active must not count


@pytest.mark.parametrize(("channels", "relations"), [(64, 2), (144, 3), (176, 5), (64, 30)])
@pytest.mark.parametrize(("runs", "rows"), [(2, 40), (3, 150)])
@pytest.mark.parametrize("apart", [False, True], ids=["in one tensor", "first apart"])
def test_gradients_of_matrices(apart, runs, rows, channels, relations, impl):
    case = Case(runs, rows, channels, relations, impl)
    first = case.x[:runs].clone() if apart else None
    if apart:
        case.x[:runs] = NOTHING
    found = pair_gradient(case.x, case.back, case.matrix, relations, case.active, first, impl=impl)
    assert found.dtype == case.x.dtype
    limits = tolerance(torch.bfloat16 if impl == "triton" else torch.float64)
    limits["atol"] = max(limits["atol"], limits["rtol"] * rows**0.5)
    torch.testing.assert_close(found.double(), case.exact, **limits)


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 3, 2)], ids=["side by side", "summed last"])
def test_a_gradient_is_stored_as_its_matrix(order):
    # stored with its axes in another order, as the weights of many runs are
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(2, *([3, 4, 5][axis - 1] for axis in order[1:]), generator=generator).permute(order)
    assert weight.shape == (2, 3, 4, 5)
    x, back = torch.randn(2, 7, 4, generator=generator), torch.randn(2, 7, 15, generator=generator)
    matrix = side_by_side(weight)
    assert matrix.data_ptr() == weight.data_ptr()  # a view
    found = pair_gradient(x, back, matrix, 3)
    torch.testing.assert_close(found, torch.einsum("knf,knro->krfo", x, back.unflatten(2, (3, 5))))
    assert found.stride() == weight.stride()


@pytest.mark.gpu
def test_the_kernel_of_gradients_takes_many_short_rows_in_two_bytes():
    def takes(runs=9, rows=800, channels=144, dtype=torch.bfloat16, last=True):
        x = torch.empty(runs, rows, channels, dtype=dtype, device="cuda")
        matrix = torch.empty(runs, 3 * channels, channels, dtype=dtype, device="cuda").transpose(1, 2)
        active = torch.empty(runs, -(-rows // TILE), dtype=torch.int32, device="cuda")
        return reads_active(x, matrix if last else matrix.contiguous(), active)

    assert takes()
    assert not takes(dtype=torch.float32)
    assert not takes(runs=1)
    assert not takes(rows=2048)
    assert not takes(channels=32)
    assert not takes(channels=208)
    assert not takes(last=False)
    assert not reads_active(torch.empty(9, 800, 144), torch.empty(9, 144, 432), None)


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match=r"`impl` must be one of \[.*'reference'.*\] on this machine, got 'fast'"):
        pair_gradient(torch.ones(1, 2, 2), torch.ones(1, 2, 2), torch.ones(1, 2, 2), 1, impl="fast")
