"""Linear maps of many runs against one product per run; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.row_maps import BACKWARD, FORWARD, add_row, row_maps
from graphprism.ops.linear_csr import relational_transform

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
KERNELS = [
    "bmm",
    pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu),
]


def draw(*size, seed=0, dtype=torch.double, device="cpu"):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double).to(device, dtype)


@pytest.mark.parametrize("relations", [1, 3])
def test_runs_are_those_alone(relations):
    x, weight = draw(4, 9, 5).requires_grad_(), draw(4, relations, 5, 6, seed=1).requires_grad_()
    together = torch.vmap(row_maps)(x, weight)
    alone = torch.stack([relational_transform(*each).flatten(1) for each in zip(x, weight, strict=True)])
    torch.testing.assert_close(together, alone)
    grad = draw(*alone.shape, seed=2)
    found, expected = (torch.autograd.grad(each, (x, weight), grad) for each in (together, alone))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_an_added_row_is_a_sum():
    x, row = draw(3, 7, 4).requires_grad_(), draw(3, 4, seed=1).requires_grad_()
    out = torch.vmap(add_row)(x, row)
    torch.testing.assert_close(out, x + row[:, None])
    grad = draw(*out.shape, seed=2)
    found, expected = (torch.autograd.grad(each, (x, row), grad) for each in (out, x + row[:, None]))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_second_derivatives():
    x, weight = draw(2, 5, 3).requires_grad_(), draw(2, 2, 3, 4, seed=1).requires_grad_()
    assert torch.autograd.gradgradcheck(torch.vmap(row_maps), (x, weight))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("layout", ["outputs", "channels", "wider"])
@pytest.mark.parametrize(
    ("rows", "channels", "relations", "outputs"),
    [(40, 20, 3, 24), (33, 70, 1, 130), (1, 8, 2, 17), (100, 64, 1, 64), (31, 192, 1, 64)],
)
@pytest.mark.parametrize("backend", KERNELS)
def test_backends_equal_their_references(backend, rows, channels, relations, outputs, layout, relu):
    if backend not in FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device = "cuda" if backend == "triton" and not INTERPRETED else "cpu"
    own = {"dtype": torch.float32, "device": device}
    x, bias = draw(3, rows, channels, **own), draw(3, relations * outputs, seed=1, **own)
    if layout == "outputs":
        weight = draw(3, relations, channels, outputs, seed=2, **own)
    elif layout == "channels":
        weight = draw(3, relations, outputs, channels, seed=2, **own).transpose(2, 3)
    else:  # runs further apart, as slices of all parameters
        weight = draw(3, 2 * relations * channels * outputs, seed=2, **own)[:, : relations * channels * outputs]
        weight = weight.view(3, relations, channels, outputs)
    found, exact = (FORWARD.choose(each, x.device)(x, weight, bias, relu) for each in (backend, "reference"))
    exact = FORWARD.choose("reference", x.device)(x.double(), weight.double(), bias.double(), relu)
    close(found, exact)
    grad = draw(*found.shape, seed=3, **own)
    gate = found if relu else None
    ours = BACKWARD.choose(backend, x.device)(grad, x, weight, gate, True)
    theirs = BACKWARD.choose("reference", x.device)(grad.double(), x.double(), weight.double(), gate, True)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
    assert BACKWARD.choose(backend, x.device)(grad, x, weight, gate, False)[2] is None


def close(found, exact):
    assert found.shape == exact.shape
    size = max(1.0, float(exact.detach().abs().max()))
    torch.testing.assert_close(found.double() / size, exact / size, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.gpu
def test_linear_maps_take_the_kernels(relu):
    own = {"dtype": torch.float32, "device": "cuda"}
    given = draw(3, 50, 40, **own), draw(3, 48, 40, seed=1, **own), draw(3, 48, seed=2, **own)
    leaves = [each.requires_grad_() for each in given]
    out = torch.vmap(lambda *each: batched_linear(*each, relu=relu))(*leaves)
    exact = [each.detach().double().requires_grad_() for each in given]
    expected = torch.einsum("knf,ktf->knt", *exact[:2]) + exact[2][:, None]
    expected = expected.relu() if relu else expected
    close(out, expected)
    grad = draw(3, 50, 48, seed=3, **own)
    ours, theirs = torch.autograd.grad(out, leaves, grad), torch.autograd.grad(expected, exact, grad.double())
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
