"""The loss against autograd, and its kernel against the reference.

`TRITON_INTERPRET=1` runs the kernel on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops.batched.step import ABSOLUTE_LOSS, absolute_loss
from graphprism.testing import tolerance

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
on_device = [] if INTERPRETED else [pytest.mark.gpu]
TURN = 2


def make(runs=3, graphs=5, width=2, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(0)
    output, target = torch.randn(2, runs, graphs, width, generator=generator, dtype=torch.float64).to(device, dtype)
    output[0, 1] = target[0, 1]  # nothing is wrong: no gradient
    share = torch.rand(runs, graphs, generator=generator, dtype=torch.float64).to(device, dtype)
    share[-1, -1] = 0
    return output, target, share, torch.zeros(4, runs, dtype=dtype, device=device), torch.tensor([TURN], device=device)


def test_equals_autograd():
    output, target, share, losses, turn = make()
    leaf = output.clone().requires_grad_()
    expected = ((leaf - target).abs().mean(-1) * share).sum(1)
    grad = absolute_loss(leaf, target, share, losses, turn)
    assert not grad.requires_grad
    torch.testing.assert_close(losses[TURN], expected.detach())
    torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), leaf)[0])
    assert not losses[[0, 1, 3]].any()


def test_bad_input():
    output, target, share, losses, turn = make()
    with pytest.raises(ValueError, match=r"`target` must have shape \[3, 5, 2\], got \[3, 5, 1\]"):
        absolute_loss(output, target[..., :1], share, losses, turn)
    with pytest.raises(ValueError, match=r"`share` must have shape \[3, 5\], got \[3, 4\]"):
        absolute_loss(output, target, share[:, :4], losses, turn)
    with pytest.raises(ValueError, match=r"`losses` must have shape \[S, 3\], got \[4, 2\]"):
        absolute_loss(output, target, share, losses[:, :2], turn)
    with pytest.raises(ValueError, match=r"`impl` must be one of .* on this machine, got 'fused'"):
        absolute_loss(output, target, share, losses, turn, impl="fused")


@pytest.fixture
def device():
    if "triton" not in ABSOLUTE_LOSS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(1, 32, 1), (3, 5, 2), (2, 200, 11)], ids=str)
class TestKernel:
    pytestmark = on_device

    def test_equals_the_reference(self, shape, dtype, device):
        output, target, share, losses, turn = make(*shape, dtype, device)
        expected = losses.clone()
        grad = absolute_loss(output, target, share, losses, turn, impl="triton")
        exact = absolute_loss(output, target, share, expected, turn, impl="reference")
        torch.testing.assert_close((grad, losses), (exact, expected), **tolerance(dtype))
        assert grad.sign().equal(exact.sign())
        assert not losses[[0, 1, 3]].any()

    def test_a_run_that_is_lost_leaves_the_others_alone(self, shape, dtype, device):
        output, target, share, losses, turn = make(*shape, dtype, device)
        output[0, 0, 0] = float("nan")
        absolute_loss(output, target, share, losses, turn, impl="triton")
        assert losses[TURN].isnan().tolist() == [True] + [False] * (shape[0] - 1)
