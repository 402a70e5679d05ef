import copy

import pytest
import torch

from graphprism.nn.conv.operands import batch_norm

# rows 1 and 4 are none; what stands there must not matter
COUNTS = torch.tensor([1, 0, 1, 1, 0, 1, 1])
REAL = COUNTS.bool()


def make(**options):
    torch.manual_seed(0)
    module = torch.nn.BatchNorm1d(3, **options).double()
    if module.affine:
        torch.nn.init.normal_(module.weight)
        torch.nn.init.normal_(module.bias)
    return module, copy.deepcopy(module)


def draw(seed=0):
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(REAL[:, None], 3 * x + 1, 1e3 * x).requires_grad_()


@pytest.mark.parametrize("kind", [torch.long, torch.bool, torch.float64], ids=str)
@pytest.mark.parametrize("options", [{}, {"momentum": None}, {"momentum": 0.7}, {"affine": False}], ids=str)
def test_equals_the_module_on_the_rows_that_count(options, kind):
    ours, theirs = make(**options)
    for seed in range(3):  # running statistics over several batches
        x = draw(seed)
        found, expected = batch_norm(ours, x, COUNTS.to(kind))[REAL], theirs(x[REAL])
        torch.testing.assert_close(found, expected)
        inputs = [[x, *module.parameters()] for module in (ours, theirs)]
        grads = [
            torch.autograd.grad(out.pow(3).sum(), each) for out, each in zip((found, expected), inputs, strict=True)
        ]
        torch.testing.assert_close(*grads)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    x = draw(9)
    for module in (ours, theirs):
        module.eval()
    torch.testing.assert_close(batch_norm(ours, x, COUNTS), theirs(x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())  # evaluation takes no note


def test_without_counts_it_is_the_module():
    ours, theirs = make()
    x = draw()
    assert batch_norm(ours, x).equal(theirs(x))
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)


def test_without_running_statistics():
    ours, theirs = make(track_running_stats=False)
    x = draw()
    for _ in range(2):
        torch.testing.assert_close(batch_norm(ours, x, COUNTS)[REAL], theirs(x[REAL]))
        ours.eval()
        theirs.eval()


def test_half_precision_has_statistics_in_float32():
    ours, theirs = (module.float() for module in make())
    x = draw().detach().bfloat16()
    for _ in range(2):
        found = batch_norm(ours, x, COUNTS)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found[REAL], theirs(x[REAL].float()).bfloat16())
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
        ours.eval()
        theirs.eval()


@pytest.mark.parametrize("momentum", [0.1, None])
def test_nothing_to_count_changes_nothing_and_stays_finite(momentum):
    module, before = make(momentum=momentum)
    x = draw()
    out = batch_norm(module, x, torch.zeros(7))
    assert out.isfinite().all()
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()
    torch.testing.assert_close(module.state_dict(), before.state_dict(), rtol=0, atol=0)


def test_many_modules_at_once():
    pairs = [make() for _ in range(2)]
    x = torch.stack([draw(0), draw(1)]).detach()
    counts = torch.stack([COUNTS, COUNTS.flip(0)])
    state = {
        name: torch.stack([dict(ours.state_dict())[name] for ours, _ in pairs]) for name in pairs[0][0].state_dict()
    }
    template = pairs[0][0]

    def run(state, x, counts):
        return torch.func.functional_call(_Masked(template), {f"module.{k}": v for k, v in state.items()}, (x, counts))

    out = torch.vmap(run)(state, x, counts)
    for number, (_, theirs) in enumerate(pairs):
        real = counts[number].bool()
        torch.testing.assert_close(out[number][real], theirs(x[number][real]))
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(state[name][number], value)


class _Masked(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, counts):
        return batch_norm(self.module, x, counts)
