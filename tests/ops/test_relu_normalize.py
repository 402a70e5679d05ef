import math

import pytest
import torch

from graphprism.ops.relu_normalize import larger, relu_normalize
from graphprism.testing import tolerance
from tests.ops.states import PARTS, States, written_out

EXACT = tolerance(torch.double)


@pytest.mark.parametrize("names", PARTS, ids="-".join)
@pytest.mark.parametrize("shape", [(9, 5), (2, 4, 3), (0, 4), (1, 1)], ids=str)
def test_it_is_its_formula(names, shape):
    states = States(shape, names)
    for ours, exact in zip(relu_normalize(**states.inputs), written_out(**states.inputs), strict=True):
        torch.testing.assert_close(ours, exact, **EXACT)


@pytest.mark.parametrize("names", PARTS, ids="-".join)
@pytest.mark.parametrize("used", ["rows", "largest", "both"])
def test_gradients_are_those_of_the_formula(names, used):
    states = States((9, 5), names)
    for ours, exact in zip(states.gradients(relu_normalize, used), states.gradients(written_out, used), strict=True):
        torch.testing.assert_close(ours, exact, **EXACT)


def test_only_what_wants_a_gradient_gets_one():
    states = States((6, 4), ("second", "bias", "largest"))
    whole = dict(zip(states.inputs, states.gradients(relu_normalize, "both"), strict=True))
    for name, expected in whole.items():
        alone = states.changed(lambda key, tensor, name=name: tensor.requires_grad_(key == name))
        (found,) = alone.gradients(relu_normalize)
        torch.testing.assert_close(found, expected, **EXACT)


def test_rows_that_are_shorter_than_what_is_divided_by():
    x = torch.tensor([[-1.0, -2.0], [1e-14, 0.0], [3e-12, 4e-12]], dtype=torch.double, requires_grad=True)
    out, _ = relu_normalize(x)
    torch.testing.assert_close(out, torch.tensor([[0, 0], [0.01, 0], [0.6, 0.8]], dtype=torch.double), **EXACT)
    (grad,) = torch.autograd.grad(out[:, 0].sum(), x)
    expected = torch.tensor([[0, 0], [1e12, 0], [0.64 / 5e-12, -0.48 / 5e-12]], dtype=torch.double)
    torch.testing.assert_close(grad, expected, rtol=1e-10, atol=0)


def test_equal_states_give_the_gradient_to_the_earlier():
    x, largest = torch.tensor([[1.0]], requires_grad=True), torch.tensor([[1.0]], requires_grad=True)
    found = relu_normalize(x, largest=largest)[1]
    assert torch.autograd.grad(found.sum(), largest)[0].item() == 1
    before = torch.tensor([[1.0]], requires_grad=True)
    assert torch.autograd.grad(larger(before, torch.ones(1, 1)).sum(), before)[0].item() == 1


def test_it_keeps_its_output_a_length_and_a_comparison():
    states, kept = States((50, 8), ("second", "bias", "kept", "largest")), []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        out, _ = relu_normalize(**states.inputs)
    assert [(tuple(each.shape), each.dtype) for each in kept] == [
        ((50, 8), torch.double), ((50, 1), torch.double), ((50, 8), torch.bool)
    ]  # fmt: skip
    assert kept[0].data_ptr() == out.data_ptr()


@pytest.mark.parametrize("names", PARTS, ids="-".join)
def test_rows_may_take_the_place_of_what_they_come_from(names):
    found = {}
    for overwrite in (False, True):
        states = States((9, 5), names)
        leaf = states.inputs["x"]
        states.inputs["x"] = copy = leaf.clone()
        out, largest = relu_normalize(**states.inputs, overwrite=overwrite)
        assert (out.data_ptr() == copy.data_ptr()) == overwrite
        (out.cos() + largest.sin()).sum().backward()
        found[overwrite] = [out, largest, leaf.grad, *(each.grad for each in states.inputs.values() if each.is_leaf)]
    for apart, in_place in zip(found[False], found[True], strict=True):
        torch.testing.assert_close(apart, in_place, rtol=0, atol=0)


def test_what_needs_the_old_rows_finds_out():
    x = torch.ones(3, 4, requires_grad=True).exp()  # keeps its result
    relu_normalize(x, overwrite=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


@pytest.mark.parametrize("names", [(), ("largest",)], ids="-".join)
def test_gradients_that_come_in_are_left_alone(names):
    outs = relu_normalize(**States((5, 4), names).inputs)[: 1 + len(names)]
    grads = [torch.randn(5, 4, dtype=torch.double) for _ in outs]
    before = [grad.clone() for grad in grads]
    torch.autograd.backward(outs, grads)
    assert all(map(torch.equal, grads, before))


def test_nothing_is_overwritten_that_cannot_hold_the_rows():
    narrow, wide = torch.ones(3, 4).bfloat16(), torch.ones(4)
    assert relu_normalize(narrow, bias=wide, overwrite=True)[0].dtype == torch.float32
    turned = torch.arange(12.0).view(4, 3).t()
    expected = relu_normalize(turned)[0]
    assert relu_normalize(turned, overwrite=True)[0].equal(expected)
    assert turned[0, 1] == 3


def test_nan_stays_nan():
    x, nan = torch.tensor([[1.0, math.nan], [1.0, 2.0]]), math.nan
    out, largest = relu_normalize(x, largest=torch.tensor([[0.0, 0.0], [nan, 0.0]]))
    assert out.isnan().tolist() == [[True, True], [False, False]]
    assert largest.isnan().tolist() == [[True, True], [True, False]]


def test_half_precision_with_a_wider_bias_gives_what_adding_gives():
    x, bias = torch.randn(5, 4).bfloat16().requires_grad_(), torch.randn(4, requires_grad=True)
    out, largest = relu_normalize(x, x.detach(), bias)
    assert out.dtype == largest.dtype == torch.float32
    out.cos().sum().backward()
    assert (x.grad.dtype, bias.grad.dtype) == (torch.bfloat16, torch.float32)


def test_a_second_derivative_would_be_wrong_and_is_refused():
    x = torch.randn(3, 4, requires_grad=True)
    (once,) = torch.autograd.grad(relu_normalize(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        once.sum().backward()


def test_bad_arguments():
    x = torch.ones(3, 4)
    with pytest.raises(ValueError, match=r"`largest` must have shape \[3, 4\], got \[3, 3\]"):
        relu_normalize(x, largest=torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"`bias` must have shape \[4\], got \[3\]"):
        relu_normalize(x, bias=torch.ones(3))
    with pytest.raises(ValueError, match=r"`impl` must be one of .* on this machine, got 'fast'"):
        relu_normalize(x, impl="fast")


@pytest.mark.parametrize("names", PARTS, ids="-".join)
def test_runs_together_are_each_alone(names):
    states = States((2, 9, 5), names)
    rows = {name: 0 if tensor.dim() == 3 else None for name, tensor in states.inputs.items()}

    def together(**inputs):
        return torch.vmap(lambda given: relu_normalize(**given), in_dims=(rows,))(inputs)

    for ours, exact in zip(together(**states.inputs), written_out(**states.inputs), strict=True):
        torch.testing.assert_close(ours, exact, **EXACT)
    for ours, exact in zip(states.gradients(together), states.gradients(written_out), strict=True):
        torch.testing.assert_close(ours, exact, **EXACT)
