import pytest
import torch

from graphprism.ops import adam_step

LR, DECAY = (1e-2, 1e-3, 1e-1), (0.0, 0.1, 0.2)
COUNT, SIZE, SIDE = len(LR), 21, 4  # runs, numbers of each, and what stands beside them in a larger tensor


def make(seed, size=SIZE):
    return torch.randn(COUNT, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_torch(begin, grads, clip, decoupled, betas, eps):
    found = []
    for number in range(COUNT):
        parameter = torch.nn.Parameter(begin[number].clone())
        make_one = torch.optim.AdamW if decoupled else torch.optim.Adam
        rates = {"lr": LR[number], "weight_decay": DECAY[number]}
        optimizer = make_one([parameter], betas=betas, eps=eps, **rates)
        for grad in grads:
            parameter.grad = grad[number].clone()
            if clip:
                torch.nn.utils.clip_grad_norm_([parameter], clip)
            optimizer.step()
        state = optimizer.state[parameter]
        found.append([parameter.detach(), state["exp_avg"], state["exp_avg_sq"]])
    return [torch.stack(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.5, 0.7), 1e-2)])
@pytest.mark.parametrize("clip", [0.0, 1.0, 4.5])  # 4.5: some steps are clipped and some are not
@pytest.mark.parametrize("decoupled", [True, False])
def test_equals_torch_over_several_steps(decoupled, clip, betas, eps):
    whole = [make(0, SIZE + 2 * SIDE), *torch.zeros(2, COUNT, SIZE + 2 * SIDE, dtype=torch.float64)]
    beside = [each.clone() for each in whole]
    inner = [each[:, SIDE:-SIDE] for each in whole]
    begin, grads = inner[0].clone(), [make(seed) for seed in range(1, 5)]
    rates = {"lr": torch.tensor(LR, dtype=torch.float64), "decay": torch.tensor(DECAY, dtype=torch.float64)}
    for step, grad in enumerate(grads, start=1):
        count, kept = torch.tensor(float(step), dtype=torch.float64), grad.clone()
        adam_step(inner[0], grad, *inner[1:], **rates, count=count, norm=grad.norm(dim=1), clip=clip,
                  betas=betas, eps=eps, decoupled=decoupled)  # fmt: skip
        assert grad.equal(kept)
    expected = by_torch(begin, grads, clip, decoupled, betas, eps)
    for ours, theirs in zip(inner, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    for ours, before in zip(whole, beside, strict=True):
        assert ours[:, :SIDE].equal(before[:, :SIDE])
        assert ours[:, -SIDE:].equal(before[:, -SIDE:])


def test_the_norm_may_be_that_of_more_than_is_here():
    weight, first, second = make(0), *torch.zeros(2, COUNT, SIZE, dtype=torch.float64)
    rate, grad = torch.ones(COUNT, dtype=torch.float64), make(1)
    adam_step(weight, grad, first, second, lr=rate, decay=0 * rate, count=torch.tensor(1.0), norm=4 * rate, clip=2.0)
    torch.testing.assert_close(first, 0.1 * grad / 2, rtol=1e-6, atol=0.0)


def test_a_run_that_is_lost_leaves_the_others_alone():
    found = []
    for lost in (False, True):
        weight, first, second = make(0), *torch.zeros(2, COUNT, SIZE, dtype=torch.float64)
        grad, rate = make(1), torch.ones(COUNT, dtype=torch.float64)
        if lost:
            grad[1, 3] = float("nan")
        norm, count = grad.norm(dim=1), torch.tensor(1.0)
        adam_step(weight, grad, first, second, lr=rate, decay=rate, count=count, norm=norm, clip=1.0)
        found.append(weight)
    assert found[1][1].isnan().all()
    assert found[0][[0, 2]].equal(found[1][[0, 2]])


def test_a_gradient_of_another_type():
    weight, first, second = make(0), *torch.zeros(2, COUNT, SIZE, dtype=torch.float64)
    rate, grad = torch.ones(COUNT, dtype=torch.float64), make(1).to(torch.bfloat16)
    adam_step(weight, grad, first, second, lr=rate, decay=rate, count=torch.tensor(1.0), norm=rate)
    torch.testing.assert_close(first, 0.1 * grad.double())


def test_bad_input():
    rate, one = torch.ones(COUNT), torch.ones(())
    whole = make(0)
    for place, name in enumerate(("grad", "first", "second"), start=1):
        tensors = [whole[:, 1:] if number == place else whole for number in range(4)]
        with pytest.raises(ValueError, match=rf"`{name}` must have shape \[3, 21\], got \[3, 20\]"):
            adam_step(*tensors, lr=rate, decay=rate, count=one, norm=rate)
    with pytest.raises(ValueError, match=r"`impl` must be one of .* on this machine, got 'fused'"):
        adam_step(whole, whole, whole, whole, lr=rate, decay=rate, count=one, norm=rate, impl="fused")
