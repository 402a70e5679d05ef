"""The feed-forward block of many runs against that of each; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch
from torch_geometric.nn.dense import Linear

from graphprism.nn.models.blocks import FeedForward
from graphprism.ops.batched import feed_forward
from graphprism.ops.batched.feed_forward import BACKWARD, FORWARD

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS, ROWS, CHANNELS = 3, 19, 6


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def make_blocks():
    blocks = []
    for seed in range(RUNS):
        torch.manual_seed(seed)
        block = FeedForward(CHANNELS, linear=Linear).double()
        for number, norm in enumerate((block.norm_in, block.norm_out)):
            torch.nn.init.normal_(norm.weight, 1, 0.3)
            torch.nn.init.normal_(norm.bias, number, 0.3)
        blocks.append(block)
    return blocks


def stacked(blocks):
    parameters, buffers = torch.func.stack_module_state(blocks)
    return {name: each.detach().requires_grad_() for name, each in parameters.items()}, buffers


def run_together(blocks, parameters, buffers, x, counts):
    def one(parameters, buffers, x, counts):
        return torch.func.functional_call(blocks[0], (parameters, buffers), (x, counts))

    return torch.vmap(one)(parameters, buffers, x, counts)


def test_runs_are_those_alone(monkeypatch):
    blocks, calls = make_blocks(), []
    own = feed_forward.for_all_runs
    monkeypatch.setattr(feed_forward, "for_all_runs", lambda *args: calls.append(args) or own(*args))
    parameters, buffers = stacked(blocks)
    counts = torch.arange(RUNS * ROWS).view(RUNS, ROWS) % 4
    counts[2] = 0  # a batch without nodes leaves the statistics as they are
    for seed in range(2):
        x = draw(RUNS, ROWS, CHANNELS, seed=seed).requires_grad_()
        together = run_together(blocks, parameters, buffers, x, counts)
        assert len(calls) == seed + 1
        alone = torch.stack([block(*each) for block, *each in zip(blocks, x, counts, strict=True)])
        torch.testing.assert_close(together, alone)
        grad = draw(*alone.shape, seed=5)
        found = torch.autograd.grad(together, (x, *parameters.values()), grad)
        theirs = [dict(block.named_parameters()) for block in blocks]
        leaves = [each[name] for name in parameters for each in theirs]
        expected = torch.autograd.grad(alone, (x, *leaves), grad)
        torch.testing.assert_close(found[0], expected[0])
        for number, (name, ours) in enumerate(zip(parameters, found[1:], strict=True)):
            own_gradients = torch.stack(expected[1 + number * RUNS : 1 + (number + 1) * RUNS])
            torch.testing.assert_close(ours, own_gradients, msg=lambda text, name=name: f"{name}: {text}")
        for name, buffer in buffers.items():
            torch.testing.assert_close(buffer, torch.stack([dict(each.named_buffers())[name] for each in blocks]))


@pytest.mark.parametrize("change", ["dropout", "gelu", "evaluation", "hook", "autocast", "types"])
def test_other_blocks_are_one_op_after_another(change, monkeypatch):
    blocks = make_blocks()
    for block in blocks:
        if change == "dropout":
            block.dropout = 0.5
        elif change == "gelu":
            block.activation = "gelu"
        elif change == "evaluation":
            block.eval()
        elif change == "types":
            block.norm_out.float()
        elif change == "hook":
            block.lin_in.register_forward_hook(lambda *args: None)
    monkeypatch.setattr(feed_forward, "for_all_runs", None)  # would raise
    parameters, buffers = stacked(blocks)
    x, counts = draw(RUNS, ROWS, CHANNELS), torch.ones(RUNS, ROWS)
    run = torch.vmap(lambda *each: torch.func.functional_call(blocks[0], each[:2], each[2:]), randomness="different")
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=change == "autocast"):
        assert run(parameters, buffers, x, counts).isfinite().all()


@pytest.mark.parametrize(("rows", "channels"), [(100, 20), (33, 64), (1, 8), (70, 80)])
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_their_references(backend, rows, channels):
    if backend not in FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device, hidden = "cpu" if INTERPRETED else "cuda", 2 * channels
    shapes = [(channels,), (channels,), (hidden, channels), (hidden,), (channels, hidden), (channels,)]
    shapes += [(channels,), (channels,)]
    drawn = [draw(RUNS, *shape, seed=seed) * (shape[-1] ** -0.5) for seed, shape in enumerate(shapes, 10)]
    drawn[0], drawn[6] = drawn[0] + 1, drawn[6] + 1
    x = 2 * draw(RUNS, rows, channels) + 1
    counts = torch.rand(RUNS, rows, generator=torch.Generator().manual_seed(1)) < 0.7
    counts[-1] = False
    found = []
    for impl, dtype in ((backend, torch.float32), ("reference", torch.float64)):
        given = [each.to(device, dtype) for each in drawn]
        parts = tuple(given[:2]), tuple(given[2:6]), tuple(given[6:])
        running = [
            (torch.zeros(RUNS, channels), torch.ones(RUNS, channels), torch.zeros(RUNS, dtype=torch.long))
            for _ in range(2)
        ]
        running = [
            tuple(each.to(device, dtype if each.is_floating_point() else None) for each in own) for own in running
        ]
        rows_, there = x.to(device, dtype), counts.to(device)
        forward = FORWARD.choose(impl, rows_.device)
        out, z, stats = forward(rows_, there, *parts, *running, (0.1, 0.2), (1e-5, 1e-5))
        grad = draw(RUNS, rows, channels, seed=4).to(device, dtype)
        back = BACKWARD.choose(impl, rows_.device)(grad, rows_, z, there, *parts, stats)
        found.append([out, z, *stats, *running[0], *running[1], *back])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours.double() / size, theirs.double() / size, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_leave_out_blocks_whose_parts_would_fill_memory(backend):
    if backend not in FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    takes, device = FORWARD.kernels.takes, torch.device("cpu" if INTERPRETED else "cuda")
    assert takes(128, 3008, torch.float32, device)
    assert takes(64, 8192, torch.float32, device)
    assert not takes(128, 8192, torch.float32, device)  # 135 MB for each run
