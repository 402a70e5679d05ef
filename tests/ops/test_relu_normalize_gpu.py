"""The kernels of `relu_normalize` against its reference; `TRITON_INTERPRET=1` runs them on the CPU, as for tables."""

import math
import os

import pytest
import torch

from graphprism.ops.relu_normalize import FORWARD, relu_normalize
from graphprism.testing import tolerance
from tests.ops.states import PARTS, States
from tests.pairwise import all_pairs

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

# Rows that fill no tile, one channel, a word of comparisons and its neighbours, more words than one.
SHAPES = [(70, 32), (3, 1), (5, 31), (67, 33), (9, 144), (2, 40, 64), (2, 2500), (0, 8)]


@pytest.fixture
def device():
    if "triton" not in FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


@all_pairs(names=PARTS, shape=SHAPES, dtype=[torch.float64, torch.float32, torch.bfloat16])
def test_outputs_equal_the_reference(names, shape, dtype, device):
    states = States(shape, names, dtype, device)
    with torch.no_grad():
        alone = relu_normalize(**states.inputs, impl="triton")
    found = relu_normalize(**states.inputs, impl="triton")
    exact = relu_normalize(**states.as_double().inputs, impl="reference")
    states.inputs["x"] = states.inputs["x"].clone()
    in_place = relu_normalize(**states.inputs, overwrite=True, impl="triton")
    assert in_place[0].data_ptr() == states.inputs["x"].data_ptr()
    for ours, without, over, theirs in zip(found, alone, in_place, exact, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, **tolerance(dtype))
        torch.testing.assert_close(without, ours, rtol=0, atol=0)
        torch.testing.assert_close(over, ours, rtol=0, atol=0)


@all_pairs(names=PARTS, used=["rows", "largest", "both"], shape=SHAPES[::3], dtype=[torch.float64, torch.float32])
def test_gradients_equal_the_reference(used, names, shape, dtype, device):
    states = States(shape, names, dtype, device)
    found = states.gradients(relu_normalize, used, impl="triton")
    exact = states.as_double().gradients(relu_normalize, used, impl="reference")
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, **tolerance(dtype))


def test_a_comparison_takes_one_bit(device):
    states, kept = States((50, 40), ("largest",), torch.float32, device), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        out, _ = relu_normalize(**states.inputs, impl="triton")
    assert [(tuple(each.shape), each.dtype) for each in kept] == [
        ((50, 40), torch.float32), ((50, 1), torch.float32), ((50, 2), torch.int32)
    ]  # fmt: skip
    assert kept[0].data_ptr() == out.data_ptr()


def test_what_needs_the_old_rows_finds_out(device):
    x = torch.ones(3, 4, device=device, requires_grad=True).exp()  # keeps its result
    relu_normalize(x, overwrite=True, impl="triton")
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_short_rows(device):
    x = torch.tensor([[-1.0, -2.0], [1e-14, 0.0], [3e-12, 4e-12]], device=device, requires_grad=True)
    out, _ = relu_normalize(x, impl="triton")
    torch.testing.assert_close(out.cpu(), torch.tensor([[0, 0], [0.01, 0], [0.6, 0.8]]))
    (grad,) = torch.autograd.grad(out[:, 0].sum(), x)
    expected = torch.tensor([[0, 0], [1e12, 0], [0.64 / 5e-12, -0.48 / 5e-12]])
    torch.testing.assert_close(grad.cpu(), expected, rtol=1e-5, atol=1e5)


def test_equal_states_give_the_gradient_to_the_earlier(device):
    x, largest = (torch.tensor([[1.0]], device=device, requires_grad=True) for _ in range(2))
    found = relu_normalize(x, largest=largest, impl="triton")[1]
    assert torch.autograd.grad(found.sum(), largest)[0].item() == 1


def test_nan_stays_nan(device):
    x = torch.tensor([[1.0, math.nan], [1.0, 2.0]], device=device, requires_grad=True)
    before = torch.tensor([[0.0, 0.0], [math.nan, 0.0]], device=device)
    out, largest = relu_normalize(x, largest=before, impl="triton")
    assert out.isnan().tolist() == [[True, True], [False, False]]
    assert largest.isnan().tolist() == [[True, True], [True, False]]
    assert torch.autograd.grad(out.sum(), x)[0].isnan().tolist() == [[True, True], [False, False]]


def test_rows_that_are_not_in_one_piece(device):
    x = torch.randn(6, 5, device=device).t().requires_grad_()
    found, exact = (relu_normalize(x, impl=impl)[0] for impl in ("triton", "reference"))
    torch.testing.assert_close(found, exact)
    grads = [torch.autograd.grad(out.sum(), x)[0] for out in (found, exact)]  # and a gradient that is one number
    torch.testing.assert_close(*grads)


def test_half_precision_with_a_wider_bias(device):
    x, bias = torch.randn(5, 4, device=device).bfloat16(), torch.randn(4, device=device, requires_grad=True)
    x.requires_grad_()
    for impl in ("triton", "reference"):
        out, largest = relu_normalize(x, x.detach(), bias, impl=impl)
        assert out.dtype == largest.dtype == torch.float32
        assert [grad.dtype for grad in torch.autograd.grad(out.cos().sum(), (x, bias))] == [x.dtype, bias.dtype]
