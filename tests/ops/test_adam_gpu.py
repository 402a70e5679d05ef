"""The kernels of Adam against their reference.

`TRITON_INTERPRET=1` runs them on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops.batched.step import ADAM_STEP, adam_step
from graphprism.testing import tolerance

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

# a bias, two matrices that chunks do not fit, a single number; the last runs up to the end
BEGINS, SIZES, WIDTH = (0, 64, 3000, 7168), (21, 2048, 4161, 1), 7169
TYPES = [(torch.float64,) * 2, (torch.float32,) * 2, (torch.float32, torch.bfloat16)]


@pytest.fixture
def device():
    if "triton" not in ADAM_STEP:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


@pytest.fixture(params=[32, 3], ids=["one launch", "two launches"])
def pieces_at_once(request, device, monkeypatch):
    monkeypatch.setattr(ADAM_STEP.kernels, "_PIECES", request.param)


def draw(*size):
    return torch.randn(*size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def pieces_of(grad, dtype, device):
    """Rows of a larger tensor; the last piece stays in the type of the weights, as a head does."""
    grad = grad.to(device)
    found = [grad[:, begin : begin + size] for begin, size in zip(BEGINS, SIZES, strict=True)]
    return [*(piece.to(dtype) for piece in found[:-1]), found[-1]]


@pytest.mark.usefixtures("pieces_at_once")
@pytest.mark.parametrize(("dtype", "grad_dtype"), TYPES)
@pytest.mark.parametrize("clip", [0.0, 1.0, 170.0])  # 170: some steps are clipped and some are not
@pytest.mark.parametrize("decoupled", [True, False])
def test_steps_equal_the_reference(decoupled, clip, dtype, grad_dtype, device):
    begin = draw(3, WIDTH + 40).to(dtype)
    rates = {"lr": torch.tensor([1e-2, 1e-3, 1e-1]), "decay": torch.tensor([0.0, 0.1, 0.2])}
    more = {name: value.to(device, dtype) for name, value in rates.items()} | {"clip": clip, "decoupled": decoupled}
    found = {}
    for impl in ("reference", "triton"):
        whole = [begin.clone().to(device), *torch.zeros(2, 3, WIDTH + 40, dtype=dtype, device=device)]
        inner = [each[:, 20:-20] for each in whole]
        low = torch.zeros_like(whole[0], dtype=torch.bfloat16) if grad_dtype == torch.bfloat16 else None
        for step in range(1, 4):
            count = torch.tensor(step, device=device)
            grads = pieces_of(step * begin[:, 20:-20].cos(), grad_dtype, device)
            adam_step(inner[0], grads, *inner[1:], begins=BEGINS, count=count, **more, impl=impl,
                      used=None if low is None else low[:, 20:-20])  # fmt: skip
        kept = torch.ones(WIDTH + 40, dtype=torch.bool)
        for first, size in zip(BEGINS, SIZES, strict=True):
            kept[20 + first : 20 + first + size] = False
        assert whole[0].cpu()[:, kept].equal(begin[:, kept])
        if low is not None:
            # the interpreter cuts numbers off instead of rounding them
            near = tolerance(torch.bfloat16) if INTERPRETED else {"rtol": 0, "atol": 0}
            torch.testing.assert_close(low.cpu()[:, ~kept], whole[0].cpu()[:, ~kept].to(torch.bfloat16), **near)
            assert not low.cpu()[:, kept].any()
        found[impl] = whole
    for ours, theirs in zip(found["triton"], found["reference"], strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance(dtype))


def test_a_run_that_is_lost_stays_lost(device):
    weight = torch.ones(2, 5, device=device)
    grad, rate = torch.tensor([[float("nan")], [1.0]], device=device).repeat(1, 4), torch.ones(2, device=device)
    first, second = torch.zeros(2, 2, 5, device=device)
    pieces, begins = [grad[:, :1].contiguous(), torch.ones(2, 4, device=device)], (0, 1)
    more = {"lr": rate, "decay": rate, "count": rate[0], "clip": 1.0}
    adam_step(weight, pieces, first, second, begins=begins, **more, impl="triton")
    assert weight[0].isnan().all()
    assert weight[1].isfinite().all()
