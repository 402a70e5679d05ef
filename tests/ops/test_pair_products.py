"""Products that leave out pairs which nobody sends by; `TRITON_INTERPRET=1` runs the kernels where triton is."""

import os

import pytest
import torch

from graphprism.ops.batched.pair_products import PRODUCT, TILE, pair_product, pair_product_back, turn_matrices
from graphprism.testing import tolerance
from tests.ops.tables import NOTHING
from tests.pairwise import all_pairs, in_turn

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# Triton's interpreter cannot multiply bfloat16
DTYPES = [torch.float32, torch.float16 if INTERPRETED else torch.bfloat16]
# runs and rows: a part of a tile, several tiles, and so many that other shapes of programs are chosen
SIZES = [(2, 40), (3, 150), (40, 130)]
# channels and relations
PAIRS = [(16, 2), (48, 3), (144, 3), (32, 5), (272, 2), (32, 9)]


@pytest.fixture(params=["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def impl(request):
    if request.param not in PRODUCT:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return request.param


@pytest.fixture
def device(impl):
    return "cpu" if impl == "reference" or INTERPRETED else "cuda"


class Case:
    """Rows, matrices, and which tiles are active."""

    def __init__(self, runs, rows, channels, relations, dtype, device):
        generator = torch.Generator().manual_seed(0)

        def draw(*size):
            return torch.randn(*size, generator=generator, dtype=torch.float64).to(device, dtype)

        self.x, self.gate = draw(runs, rows, channels), draw(runs, rows, channels)
        # as in lockstep: columns of a tensor that holds more, summed channels last
        self.matrices = [each.transpose(1, 2) for each in draw(runs, 3, relations * channels, channels).unbind(1)]
        self.back = draw(runs, rows, relations * channels)
        tiles = -(-rows // TILE)
        self.active = torch.randint(1 << relations, (runs, tiles), generator=generator, dtype=torch.int32).to(device)
        self.active[0] = 0  # nobody sends anything
        bits = self.active[..., None] >> torch.arange(relations, device=device) & 1
        rows_of = bits.bool().repeat_interleave(TILE, dim=1)[:, :rows]  # (K, N, R)
        self.there = rows_of.repeat_interleave(channels, dim=2)


@in_turn(pair=PAIRS, dtype=DTYPES, size=SIZES)
def test_products_of_active_pairs(pair, dtype, size, impl, device):
    channels, relations = pair
    case = Case(*size, channels, relations, dtype, device)
    for matrix in (*case.matrices, case.matrices[0].contiguous()):
        ours = pair_product(case.x, matrix, case.active, impl=impl)
        exact = torch.bmm(case.x.double(), matrix.double())
        assert ours.dtype == dtype
        torch.testing.assert_close(ours[case.there].double(), exact[case.there], **_limits(dtype, channels))


@all_pairs(pair=PAIRS, gated=[True, False], dtype=DTYPES, size=SIZES)
def test_the_way_back(pair, gated, dtype, size, impl, device):
    channels, relations = pair
    case = Case(*size, channels, relations, dtype, device)
    wide = torch.where(case.there, case.back.double(), 0)
    exact = torch.bmm(wide, case.matrices[1].double().transpose(1, 2))
    exact = torch.where(case.gate > 0, exact, 0) if gated else exact
    case.back[~case.there] = NOTHING  # what is not active must not count
    out, turned = torch.full_like(case.x, NOTHING), turn_matrices(case.matrices, case.active, impl=impl)
    gate = case.gate if gated else None
    pair_product_back(case.back, turned[1], case.active, gate, out=out, impl=impl)
    torch.testing.assert_close(out.double(), exact, **_limits(dtype, channels * relations))


def test_matrices_at_any_distances_are_turned(impl, device):
    case = Case(40, 130, 48, 3, torch.float32, device)
    for order in ([0, 1, 2], [0, 2, 1], [1]):
        chosen = [case.matrices[number] for number in order]
        for matrix, turned in zip(chosen, turn_matrices(chosen, case.active, impl=impl), strict=True):
            assert turned.equal(matrix)
            assert turned.is_contiguous() == (impl == "triton")


def test_an_unknown_form_is_an_error():
    case = Case(2, 40, 16, 2, torch.float32, "cpu")
    with pytest.raises(ValueError, match=r"`impl` must be one of .*, got 'fast'"):
        pair_product(case.x, case.matrices[0], impl="fast")


def _limits(dtype, count):
    """Rounding of sums of so many products of numbers around one."""
    limits = tolerance(torch.bfloat16 if dtype == torch.float16 else dtype)
    return {"rtol": limits["rtol"], "atol": max(limits["atol"], limits["rtol"] * count**0.5)}
