"""Ops that process all runs of a `torch.vmap` at once: tensors that all runs share, second and batched gradients.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os
from functools import partial

import pytest
import torch

from graphprism.nn import MRSGCNEConv, MRSGINEConv
from graphprism.ops import backends
from graphprism.ops.batched.batch_norm import run_batch_norm
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.feed_forward import run_feed_forward
from graphprism.ops.batched.row_maps import add_row, row_maps

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS, ROWS, CHANNELS = 2, 5, 3


def draw(*size, seed=0, dtype=torch.double):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(dtype)


def normalise(x, weight, bias, added, relu):
    running = torch.zeros_like(weight), torch.ones_like(weight), torch.zeros_like(weight[0], dtype=torch.long)
    counts = torch.arange(ROWS).expand_as(x[:, 0]) % 4
    return run_batch_norm(x, counts, weight, bias, running, 0.1, 1e-5, relu, added)


def feed_forward(x, *given):
    running = [torch.zeros_like(given[0]), torch.ones_like(given[0]), torch.zeros_like(given[0][0], dtype=torch.long)]
    running, last_running = ([each.clone() for each in running] for _ in range(2))
    counts = torch.arange(ROWS).expand_as(x[:, 0]) % 4
    settings = (0.1, 0.1), (1e-5, 1e-5)
    return run_feed_forward(x, counts, given[:2], given[2:6], given[6:], running, last_running, *settings)


ROW, TABLE, WIDE = (CHANNELS,), (ROWS, CHANNELS), 2 * CHANNELS
OPS = {
    "row_maps": (row_maps, [TABLE, (2, CHANNELS, 4)]),
    "add_row": (add_row, [TABLE, ROW]),
    "linear": (batched_linear, [TABLE, (4, CHANNELS), (4,)]),
    "relu": (partial(batched_linear, relu=True), [TABLE, (4, CHANNELS), (4,)]),
    "norm": (partial(normalise, relu=False), [TABLE, ROW, ROW, TABLE]),
    "norm and relu": (partial(normalise, relu=True), [TABLE, ROW, ROW, TABLE]),
    "feed forward": (feed_forward, [TABLE, ROW, ROW, (WIDE, CHANNELS), (WIDE,), (CHANNELS, WIDE), ROW, ROW, ROW]),
}


def case(name, dtype=torch.double):
    """An op for all runs and its inputs."""
    function, shapes = OPS[name]
    inputs = [draw(RUNS, *shape, seed=seed, dtype=dtype).requires_grad_() for seed, shape in enumerate(shapes)]
    return torch.vmap(function), inputs


@pytest.mark.parametrize("name", OPS)
def test_second_derivatives(name):
    function, inputs = case(name)
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_batched_gradients(name, kernels, monkeypatch):
    if kernels and not INTERPRETED:
        pytest.skip("needs Triton's interpreter")
    monkeypatch.setattr(backends, "_INTERPRETED", kernels)
    function, inputs = case(name, torch.float32 if kernels else torch.double)
    out = function(*inputs)
    grads = draw(3, *out.shape, seed=20, dtype=out.dtype)
    together = torch.autograd.grad(out, inputs, grads, is_grads_batched=True, retain_graph=True)
    for number, grad in enumerate(grads):
        alone = torch.autograd.grad(out, inputs, grad, retain_graph=True)
        for ours, theirs in zip(together, alone, strict=True):
            torch.testing.assert_close(ours[number], theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("name", ["row_maps", "linear", "relu"])
def test_autocast(name, kernels, monkeypatch):
    if kernels and not INTERPRETED:
        pytest.skip("needs Triton's interpreter")
    monkeypatch.setattr(backends, "_INTERPRETED", kernels)
    function, inputs = case(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = function(*inputs)
    assert out.dtype == torch.bfloat16
    grad = draw(*out.shape, seed=20, dtype=torch.float32)
    found = torch.autograd.grad(out, inputs, grad.bfloat16())
    expected = torch.autograd.grad(function(*inputs), inputs, grad)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["row_maps", "add_row", "linear", "relu"])
def test_tensors_that_all_runs_share(name):
    function, shapes = OPS[name]
    inputs = [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    factor = draw(RUNS, seed=9)
    out = torch.vmap(lambda factor: factor * function(*inputs))(factor)
    alone = torch.vmap(function)(*(each[None] for each in inputs))
    torch.testing.assert_close(out, factor[:, None, None] * alone)
    grad = draw(*out.shape, seed=10)
    found = torch.autograd.grad(out, inputs, grad)
    expected = torch.autograd.grad(factor[:, None, None] * alone, inputs, grad)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("layer", [MRSGCNEConv, MRSGINEConv])
def test_layers_of_runs_that_share_weights_and_edges(layer):
    torch.manual_seed(0)
    conv = layer(4, 6, edge_dim=2).double()
    edges, types = torch.tensor([[0, 1, 2, 3, 1], [1, 0, 0, 2, 2]]), torch.tensor([0, 1, 2, 0, 1])
    edge_attr, x = draw(5, 2), draw(RUNS, ROWS, 4, seed=1)
    together = torch.vmap(lambda rows: conv(rows, edges, types, edge_attr=edge_attr))(x)
    alone = torch.stack([conv(rows, edges, types, edge_attr=edge_attr) for rows in x])
    torch.testing.assert_close(together, alone)
    parameters = list(conv.parameters())
    grad = draw(*alone.shape, seed=2)
    found, expected = (torch.autograd.grad(each, parameters, grad) for each in (together, alone))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
