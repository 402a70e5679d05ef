"""Batch normalisation of many runs against PyTorch's of each; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.nn.conv.operands import batch_norm
from graphprism.ops.batched.batch_norm import GRADIENTS, NORMALISE, run_batch_norm
from graphprism.testing import tolerance

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS, ROWS, CHANNELS = 3, 17, 5


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def states(module):
    return module.running_mean, module.running_var, module.num_batches_tracked


def make_modules(count=RUNS):
    modules = [torch.nn.BatchNorm1d(CHANNELS).double() for _ in range(count)]
    for number, module in enumerate(modules):
        with torch.no_grad():
            module.weight.copy_(draw(CHANNELS, seed=10 + number))
            module.bias.copy_(draw(CHANNELS, seed=20 + number))
    return modules


def normalise_run(x, counts, weight, bias, mean, variance, batches, relu, added):
    running = mean, variance, batches
    return run_batch_norm(x, counts, weight, bias, running, momentum=0.1, eps=1e-5, relu=relu, added=added)


@pytest.mark.parametrize("change", [{}, {"relu": True}, {"relu": True, "added": 1}, {"added": 1}], ids=str)
def test_runs_are_those_alone(change):
    modules, counts = make_modules(), torch.arange(RUNS * ROWS).view(RUNS, ROWS) % 4
    counts[2] = 0  # a batch without nodes leaves the statistics as they are
    stacked = [torch.stack([getattr(each, name) for each in modules]) for name in ("weight", "bias")]
    running = tuple(torch.stack(each) for each in zip(*map(states, modules), strict=True))
    for seed in range(2):
        x = draw(RUNS, ROWS, CHANNELS, seed=seed).requires_grad_()
        leaves = [each.detach().requires_grad_() for each in stacked]
        relu, added = change.get("relu", False), draw(RUNS, ROWS, CHANNELS, seed=7).requires_grad_()
        options = [{"relu": relu, "added": each if "added" in change else None} for each in added]
        together = torch.vmap(normalise_run, in_dims=(*[0] * 7, None, 0 if "added" in change else None))(
            x, counts, *leaves, *running, relu, added if "added" in change else None
        )
        given = zip(modules, x, counts, options, strict=True)
        alone = torch.stack([batch_norm(*each, **option) for *each, option in given])
        torch.testing.assert_close(together, alone)
        grad = draw(*alone.shape, seed=5)
        others = (added,) if "added" in change else ()
        found = torch.autograd.grad(together, (x, *others, *leaves), grad)
        names = ("weight", "bias")
        parameters = [getattr(each, name) for name in names for each in modules]
        expected = torch.autograd.grad(alone, (x, *others, *parameters), grad)
        count = 1 + len(others)
        for ours, theirs in zip(found[:count], expected[:count], strict=True):
            torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(torch.cat(found[count:]), torch.stack(expected[count:]))
        for ours, theirs in zip(running, zip(*map(states, modules), strict=True), strict=True):
            torch.testing.assert_close(ours, torch.stack(theirs))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "channels"), [(37, 6), (1100, 20), (1, 8)])
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_their_references(backend, rows, channels, dtype, relu):
    if backend not in NORMALISE:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device, wide = "cpu" if INTERPRETED else "cuda", torch.promote_types(dtype, torch.float32)
    x = (2 * draw(RUNS, rows, channels) + 1).to(device, dtype)
    counts = (torch.rand(RUNS, rows, generator=torch.Generator().manual_seed(1)) < 0.7).to(device)
    counts[-1] = False
    # as slices of wider rows
    weight, bias = (draw(RUNS, 2 * channels, seed=seed).to(device, wide)[:, :channels] for seed in (2, 3))
    runnings = []
    for impl, input_ in ((backend, x), ("reference", x.to(wide))):
        running = torch.zeros(RUNS, channels), torch.ones(RUNS, channels), torch.zeros(RUNS, dtype=torch.long)
        running = tuple(each.to(device, wide if each.is_floating_point() else None) for each in running)
        normalise = NORMALISE.choose(impl, x.device)
        added = draw(RUNS, rows, channels, seed=6).to(device, input_.dtype) if relu else None
        runnings.append((*normalise(input_, counts, weight, bias, running, 0.1, 1e-5, relu, added), *running))
    found, expected = runnings
    assert found[0].dtype == dtype
    torch.testing.assert_close(found[0].to(wide), expected[0], **tolerance(dtype))
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    grad = draw(RUNS, rows, channels, seed=4).to(device, dtype)
    mean, scale = expected[1:3]
    ours = GRADIENTS.choose(backend, x.device)(grad, x, counts, weight, bias, mean, scale, relu)
    theirs = GRADIENTS.choose("reference", x.device)(grad.to(wide), x.to(wide), counts, weight, bias, mean, scale, relu)
    size = max(1.0, float(theirs[0].abs().max()))
    torch.testing.assert_close(ours[0].to(wide) / size, theirs[0] / size, **tolerance(dtype))
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        size = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one / size, other / size, rtol=1e-4, atol=1e-5)
