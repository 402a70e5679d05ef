"""Adam on coordinates of what the network uses.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.nn.conv.relational_weight import RelationalParameter
from graphprism.ops.batched.step import ADAM_STEP, Coordinates, adam_step
from graphprism.testing import tolerance

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS = 2
LR, DECAY = torch.tensor([1e-2, 1e-1], dtype=torch.float64), torch.tensor([0.1, 0.2], dtype=torch.float64)


@pytest.fixture
def device():
    if "triton" not in ADAM_STEP:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


def held(relations, inner, decay=3.0):
    matrix, lengths = RelationalParameter((1,), relations, "shared", decay).release()
    return Coordinates(tuple(map(tuple, matrix.tolist())), tuple(lengths.tolist()), inner)


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_used_rows_and_their_gradient_by_hand():
    coordinates = Coordinates(((1, 4), (1, -6)), (1.0, 0.5), inner=2)
    rows = torch.tensor([[1.0, 10.0, 100.0, 1000.0, 0.0, 0.0, 1.0, 2.0]])  # two times two rows of two
    assert coordinates.used(rows).tolist() == [[201, 2010, -299, -2990, 2, 4, -3, -6]]
    assert coordinates.gradient(rows).tolist() == [[101, 1010, -298, -2980, 1, 2, -3, -6]]


@pytest.mark.parametrize(("relations", "inner", "outer"), [(2, 1, 5), (3, 4, 1), (3, 4, 5), (6, 3, 2)])
def test_gradient_is_that_of_autograd(relations, inner, outer):
    coordinates = held(relations, inner)
    weight, grad = draw(RUNS, outer * relations * inner).requires_grad_(), draw(RUNS, outer * relations * inner, seed=1)
    (expected,) = torch.autograd.grad(coordinates.used(weight), weight, grad)
    torch.testing.assert_close(coordinates.gradient(grad), expected)


@pytest.mark.parametrize("impl", ["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_gradients_move_no_deviation(dtype, impl):
    # a rest of rounding would be a full step of Adam
    device = "cpu" if impl == "reference" or INTERPRETED else "cuda"
    grad = draw(RUNS, 1, 300).expand(-1, 3, -1).reshape(RUNS, 900).to(device, dtype)
    weight, first, second, used = torch.zeros(4, RUNS, 900, device=device)
    rate = torch.ones(RUNS, device=device)
    adam_step(weight, [grad], first, second, begins=(0,), lr=rate, decay=rate, count=rate[0], used=used,
              coordinates=[held(3, 300)], clip=1.0, impl=impl)  # fmt: skip
    assert weight[:, :300].all()
    assert not weight[:, 300:].any()


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("decoupled", [True, False])
def test_steps_equal_those_of_torch_on_the_coordinates(decoupled, clip):
    # a piece of weights, a gap, and a piece of 2 x 3 rows of 4
    coordinates, begins, sizes = [None, held(3, 4)], (0, 8), (5, 24)
    weight = draw(RUNS, 32)
    first, second, used = torch.zeros(3, RUNS, 32, dtype=torch.float64)
    begin = weight.clone()
    grads = [draw(RUNS, 29, seed=seed) for seed in range(1, 4)]
    for step, grad in enumerate(grads, start=1):
        more = {"lr": LR, "decay": DECAY, "count": torch.tensor(step), "clip": clip, "decoupled": decoupled}
        pieces = grad.split(sizes, dim=1)
        adam_step(weight, pieces, first, second, begins=begins, coordinates=coordinates, used=used, **more)
    for number in range(RUNS):
        parameters = [torch.nn.Parameter(begin[number, b : b + size]) for b, size in zip(begins, sizes, strict=True)]
        make = torch.optim.AdamW if decoupled else torch.optim.Adam
        optimizer = make(parameters, lr=LR[number].item(), weight_decay=DECAY[number].item())
        for grad in grads:
            outputs = [parameters[0], coordinates[1].used(parameters[1][None])[0]]
            optimizer.zero_grad()
            torch.autograd.backward(outputs, list(grad[number].split(sizes)))
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, clip)
            optimizer.step()
        torch.testing.assert_close(weight[number, :5], parameters[0].detach())
        torch.testing.assert_close(weight[number, 8:], parameters[1].detach())
    assert used[:, :5].equal(weight[:, :5])
    assert used[:, 8:].equal(coordinates[1].used(weight[:, 8:]))
    assert weight[:, 5:8].equal(begin[:, 5:8])
    assert not used[:, 5:8].any()


def test_bad_coordinates():
    weight, rate = draw(RUNS, 24), torch.ones(RUNS, dtype=torch.float64)

    def message(text, coordinates, **more):
        with pytest.raises(ValueError, match=text):
            adam_step(weight, [weight], weight, weight, begins=(0,), coordinates=coordinates, lr=rate, decay=rate,
                      count=rate[0], **more)  # fmt: skip

    message("`coordinates` must be as many as `grads`, got 2 and 1", [None, None])
    message("`used` must be given with `coordinates`, got None", [held(3, 4)])
    message("`coordinates` must be of pieces of 3 x 5 numbers or a multiple, got 24", [held(3, 5)], used=weight)


# Pieces of all kinds in one step: matrices (F, R, F') of whole and of cut chunks, a bias (R, F), (R, F', F), odd sizes,
# other numbers of relations, and pieces of weights before, between and after.
PIECES = [
    (21, None),
    (48 * 3 * 48, held(3, 48)),
    (3 * 48, held(3, 48)),
    (2048, None),
    (16 * 3 * 48, held(3, 48)),
    (3 * 1500, held(3, 1500)),
    (5 * 2 * 7, held(2, 7)),
    (9 * 5, held(9, 5)),
    (3 * 1, held(3, 1, decay=1e6)),
    (1, None),
]
TYPES = [(torch.float64,) * 2, (torch.float32,) * 2, (torch.float32, torch.bfloat16)]


@pytest.mark.parametrize(("only_held", "at_once"), [(False, 32), (True, 2)])
@pytest.mark.parametrize(("dtype", "grad_dtype"), TYPES)
@pytest.mark.parametrize(("clip", "decoupled"), [(0.0, True), (1.0, True), (1.0, False)])
@pytest.mark.parametrize("impl", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_the_reference(impl, clip, decoupled, dtype, grad_dtype, only_held, at_once, device, monkeypatch):
    monkeypatch.setattr(ADAM_STEP.kernels, "_PIECES", at_once)
    pieces = [each for each in PIECES if each[1] is not None or not only_held]
    sizes, coordinates = [size for size, _ in pieces], [each for _, each in pieces]
    begins, width = [], 20
    for size in sizes:
        begins.append(width)
        width += -(-size // 64) * 64
    start = draw(RUNS, width).to(dtype)
    more = {"lr": LR, "decay": DECAY}
    more = {name: value.to(device, dtype) for name, value in more.items()} | {"clip": clip, "decoupled": decoupled}
    found = {}
    for each in ("reference", impl):
        state = [start.clone().to(device), *torch.zeros(2, RUNS, width, dtype=dtype, device=device)]
        # memory that nobody has written
        used = torch.full((RUNS, width), float("nan"), dtype=grad_dtype, device=device)
        for step in range(1, 4):
            grads = [(step * start[:, b : b + n].cos()).to(device) for b, n in zip(begins, sizes, strict=True)]
            grads = [*(grad.to(grad_dtype) for grad in grads[:-1]), grads[-1]]  # the last stays, as a head does
            adam_step(state[0], grads, *state[1:], begins=begins, count=torch.tensor(step, device=device),
                      used=used, coordinates=coordinates, **more, impl=each)  # fmt: skip
        found[each] = [tensor.cpu() for tensor in state], used.cpu()
    belongs = torch.zeros(width, dtype=torch.bool)
    for begin, size in zip(begins, sizes, strict=True):
        belongs[begin : begin + size] = True
    for ours, theirs in zip(found[impl][0], found["reference"][0], strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance(dtype))
    assert found[impl][0][0][:, ~belongs].equal(start[:, ~belongs])
    assert found[impl][1][:, ~belongs].isnan().all()
    torch.testing.assert_close(found[impl][1][:, belongs], found["reference"][1][:, belongs], **tolerance(grad_dtype))
