import os

import pytest
import torch

from graphprism.ops.batched.batched_linear import FINISH, FORWARD, GATE, batched_linear, linear_gradients, linear_rows
from graphprism.testing import tolerance
from graphprism.training.fused_gnn import FusedGNN
from tests.ops.cases import normal

linear = torch.nn.functional.linear


def columns(*shape, dtype=torch.double, seed=0):
    """Weights (K, ...) as lockstep keeps them: columns of a tensor that holds more."""
    count = torch.Size(shape[1:]).numel()
    return normal(shape[0], count + 7, dtype=dtype, seed=seed).detach()[:, 3 : count + 3].view(shape)


def test_by_hand():
    x = torch.tensor([[[1.0, 2.0], [10.0, 20.0]], [[3.0, 4.0], [30.0, 40.0]]], requires_grad=True)
    weight = torch.tensor([[[1.0, 2.0]], [[0.0, -1.0]]], requires_grad=True)
    bias = torch.tensor([[100.0], [1000.0]], requires_grad=True)
    out = torch.vmap(batched_linear)(x, weight, bias)
    assert out.tolist() == [[[105], [150]], [[996], [960]]]
    grads = torch.autograd.grad(out, (x, weight, bias), torch.tensor([[[1.0], [2.0]], [[5.0], [1.0]]]))
    assert grads[0].tolist() == [[[1, 2], [2, 4]], [[0, -5], [0, -1]]]
    assert grads[1].tolist() == [[[21, 42]], [[45, 60]]]
    assert grads[2].tolist() == [[3], [6]]


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 3, 16, 17])
def test_every_run_is_a_layer_of_its_own(outputs, has_bias):
    x, weight = normal(2, 5, 6), columns(2, outputs, 6, seed=1).requires_grad_()
    inputs = (x, weight, columns(2, outputs, seed=2).requires_grad_()) if has_bias else (x, weight)
    ours = torch.vmap(batched_linear)(*inputs)
    theirs = torch.stack([linear(*each) for each in zip(*inputs, strict=True)])
    torch.testing.assert_close(ours, theirs)
    grad = normal(2, 5, outputs, seed=3).detach()
    found, expected = (torch.autograd.grad(out, inputs, grad) for out in (ours, theirs))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("has_bias", [True, False])
def test_relu_of_every_run(has_bias):
    x, weight, bias = normal(2, 5, 6), columns(2, 17, 6, seed=1).requires_grad_(), columns(2, 17, seed=2)
    inputs = (x, weight, bias.requires_grad_()) if has_bias else (x, weight)
    ours = torch.vmap(lambda *each: batched_linear(*each, relu=True))(*inputs)
    theirs = torch.stack([batched_linear(*each, relu=True) for each in zip(*inputs, strict=True)])
    torch.testing.assert_close(theirs, torch.stack([linear(*each).relu() for each in zip(*inputs, strict=True)]))
    torch.testing.assert_close(ours, theirs)
    grad = normal(2, 5, 17, seed=3).detach()
    found, expected = (torch.autograd.grad(out, inputs, grad) for out in (ours, theirs))
    torch.testing.assert_close(found, expected)


def test_gradients():
    inputs = normal(2, 3, 4), normal(2, 2, 4, seed=1), normal(2, 2, seed=2)
    assert torch.autograd.gradcheck(torch.vmap(batched_linear), inputs)
    assert torch.autograd.gradcheck(torch.vmap(batched_linear), inputs[:2])


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4)])
def test_rows_of_any_shape_and_inputs_that_all_runs_share(shape):
    x, weight, bias = normal(*shape), normal(2, 3, 4, seed=1), normal(3, seed=2)
    ours = torch.vmap(batched_linear, in_dims=(None, 0, None))(x, weight, bias)
    theirs = torch.stack([linear(x, each, bias) for each in weight])
    torch.testing.assert_close(ours, theirs)
    found, expected = (torch.autograd.grad(out.square().sum(), (x, weight, bias)) for out in (ours, theirs))
    torch.testing.assert_close(found, expected)


def test_other_transforms_see_the_plain_layer():
    x, weight, bias = normal(2, 5, 4).detach(), normal(3, 4, seed=1).detach(), normal(3, seed=2).detach()

    def slopes(layer):
        def loss(weight, x):
            return layer(x, weight, bias).square().sum()

        def whole(weight):
            return torch.vmap(loss, in_dims=(None, 0))(weight, x).sum()

        each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, x)
        twice = torch.vmap(torch.vmap(layer, in_dims=(0, None, None)), in_dims=(0, None, None))(x, weight, bias)
        return torch.func.grad(loss)(weight, x[0]), each, torch.func.grad(whole)(weight), twice

    torch.testing.assert_close(slopes(batched_linear), slopes(linear))


def test_alone_it_is_the_plain_layer():
    x, weight, bias = (each.detach() for each in (normal(5, 4), normal(3, 4, seed=1), normal(3, seed=2)))
    assert batched_linear(x, weight, bias).equal(linear(x, weight, bias))
    assert batched_linear(x, weight).equal(linear(x, weight))
    compiled = torch.compile(batched_linear, fullgraph=True, backend="aot_eager")
    assert compiled(x, weight, bias).equal(linear(x, weight, bias))


def test_wrong_shapes_are_named():
    many = torch.vmap(batched_linear)
    with pytest.raises(ValueError, match=r"`weight` must have shape \[T, 4\], got \[3, 5\]"):
        many(normal(2, 5, 4), normal(2, 3, 5))
    with pytest.raises(ValueError, match=r"`bias` must have shape \[3\], got \[1\]"):
        many(normal(2, 5, 4), normal(2, 3, 4), normal(2, 1))
    with pytest.raises(ValueError, match=r"`impl` must be one of .*, got 'fast'"):
        linear_rows(normal(2, 5, 4), normal(2, 3, 4), impl="fast")


def test_the_head_of_a_network_keeps_its_names_and_hooks():
    network, seen = FusedGNN("mrs-gcn", 4, 2, num_layers=1, in_channels=3), []
    assert {name for name, _ in network.head.named_parameters()} == {"weight", "bias"}
    network.head.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    out = network(torch.ones(3, 3), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 2]))
    ((x, found),) = seen
    assert found is out
    assert out.equal(linear(x, network.head.weight, network.head.bias))


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BY_FORM = pytest.mark.parametrize(
    "impl", ["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)]
)


def device_of(impl):
    if impl not in FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if impl == "reference" or INTERPRETED else "cuda"


@BY_FORM
@pytest.mark.parametrize(
    ("shape", "outputs", "types"),
    [
        ((3, 32, 144), 1, (torch.float32, torch.float32)),
        ((2, 13, 300), 3, (torch.float32, torch.float32)),
        ((1, 3, 20), 16, (torch.float64, torch.float64)),
        ((2, 5, 33), 2, (torch.float32, torch.bfloat16)),
        ((2, 1, 16), 1, (torch.bfloat16, torch.bfloat16)),
    ],
)
def test_forms_against_double(shape, outputs, types, impl):
    device, (runs, rows, channels) = device_of(impl), shape
    x = columns(*shape, dtype=types[0]).to(device)
    weight, bias = (
        columns(runs, *size, dtype=types[1], seed=1).to(device) for size in ((outputs, channels), (outputs,))
    )
    grad = normal(runs, rows, outputs, dtype=torch.promote_types(*types), seed=2).detach().to(device)
    kept = [linear_rows(x, weight, bias, impl=impl), linear_rows(x, weight, impl=impl)]
    kept += linear_gradients(grad, x, weight, impl=impl)
    wide = [each.double() for each in (x, weight, bias, grad)]
    expected = [torch.einsum("kbf,ktf->kbt", *wide[:2]) + wide[2][:, None], torch.einsum("kbf,ktf->kbt", *wide[:2])]
    expected += [torch.einsum("kbt,ktf->kbf", wide[3], wide[1]), torch.einsum("kbt,kbf->ktf", wide[3], wide[0])]
    expected += [wide[3].sum(1)]
    for found, right, dtype in zip(kept, expected, (grad.dtype,) * 2 + (x.dtype, *[weight.dtype] * 2), strict=True):
        assert found.dtype == dtype
        # a sum in float32 and one rounding to the type of the result, for which the interpreter cuts bits off
        near = {torch.bfloat16: 0.008 if INTERPRETED else 0.004, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
        torch.testing.assert_close(found.double(), right, rtol=near, atol=1e-14 if dtype == torch.float64 else 3e-6)


@BY_FORM
def test_numbers_that_are_none_stay_in_their_run(impl):
    device = device_of(impl)
    x, weight, bias = normal(3, 5, 40, dtype=torch.float32), columns(3, 2, 40, seed=1), columns(3, 2, seed=2)
    x, weight, bias = (each.detach().to(device, torch.float32) for each in (x, weight, bias))
    grad = normal(3, 5, 2, dtype=torch.float32, seed=3).detach().to(device)
    for tensor in (x[1], weight[1], bias[1], grad[1]):
        before = tensor.clone()
        tensor.fill_(torch.nan)
        found = [linear_rows(x, weight, bias, impl=impl), *linear_gradients(grad, x, weight, impl=impl)]
        tensor.copy_(before)
        assert any(each[1].isnan().any() for each in found)
        assert all(each[[0, 2]].isfinite().all() for each in found)


@BY_FORM
def test_gradients_that_autograd_expands(impl):
    device = device_of(impl)
    x, weight = (normal(2, 5, 4, dtype=torch.float32, seed=seed).detach().to(device) for seed in (0, 1))
    grad = torch.ones(1, 1, 1, device=device).expand(2, 5, 5)
    found = linear_gradients(grad, x.transpose(1, 2).contiguous().transpose(1, 2), weight, impl=impl)
    torch.testing.assert_close(found[0], weight.sum(1, keepdim=True).expand(2, 5, 4))
    torch.testing.assert_close(found[1], x.sum(1, keepdim=True).expand(2, 5, 4))
    assert found[2].eq(5).all()


@BY_FORM
def test_the_form_that_is_chosen_and_gradients_of_gradients(impl, monkeypatch):
    device = device_of(impl)
    if impl == "triton" and INTERPRETED:  # which lets the kernels take tensors of the CPU
        for name in ("takes", "takes_back"):
            monkeypatch.setattr(FORWARD.kernels, name, lambda x, weight: True)
        monkeypatch.setattr("graphprism.ops.backends._INTERPRETED", True)
    shapes = ((2, 3, 4), (2, 2, 4), (2, 2))
    inputs = [normal(*shape, seed=seed).detach().to(device).requires_grad_() for seed, shape in enumerate(shapes)]
    assert torch.autograd.gradcheck(torch.vmap(batched_linear), inputs)
    assert torch.autograd.gradgradcheck(torch.vmap(batched_linear), inputs)


@BY_FORM
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "channels"), [(5, 3), (300, 70)])
def test_bias_and_relu_and_the_way_back(rows, channels, dtype, impl):
    device = device_of(impl)
    made, bias = normal(2, rows, channels, dtype=dtype).detach(), columns(2, channels, dtype=dtype, seed=1)
    made, bias, grad = (each.to(device) for each in (made, bias, normal(2, rows, channels, seed=2).detach().to(dtype)))
    for given in (bias, None):
        out = made.clone()
        FINISH.choose(impl, out.device)(out, given)
        expected = (made.double() + (0 if given is None else given.double()[:, None])).relu()
        torch.testing.assert_close(out.double(), expected, **tolerance(dtype))
    out[0, 0, 0] = torch.nan
    passed, sums = GATE.choose(impl, out.device)(grad, out)
    assert passed.equal(torch.where(out > 0, grad, 0))
    assert passed.dtype == sums.dtype == dtype
    near = {"rtol": 0.02, "atol": 0.1} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(sums.double(), passed.double().sum(1), **near)


@pytest.mark.parametrize("rows", [1, 512, 1536, 1000])
@pytest.mark.gpu
def test_weights_of_many_rows_are_summed_in_parts(rows):
    grad, x, weight = (normal(2, *size, seed=rows).detach().cuda() for size in ((rows, 20), (rows, 18), (20, 18)))
    found = linear_gradients(grad, x, weight)
    expected = linear_gradients(grad, x, weight, impl="reference")
    torch.testing.assert_close(found, expected)


@pytest.mark.gpu
def test_what_kernels_take():
    kernels = FORWARD.kernels

    def taken(rows, outputs, dtype=torch.float32, channels=4, device="cuda"):
        x, weight = torch.empty(2, rows, channels), torch.empty(2, outputs, channels)
        x, weight = x.to(device, dtype), weight.to(device, dtype)
        return kernels.takes(x, weight), kernels.takes_back(x, weight)

    assert taken(128, 16) == taken(32, 1, torch.float64) == taken(3, 1, torch.bfloat16) == (True, True)
    assert taken(129, 1) == taken(33, 1, torch.float64) == (True, False)
    assert taken(3, 17) == taken(3, 1, channels=0) == taken(0, 1) == taken(3, 1, device="cpu") == (False, False)
