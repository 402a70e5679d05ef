import pytest
import torch

from graphprism.ops.batched.step import adam_step

LR, DECAY = (1e-2, 1e-3, 1e-1), (0.0, 0.1, 0.2)
COUNT, SIZE, SIDE = len(LR), 21, 4  # runs, numbers of each, and what stands beside them in a larger tensor
PIECES = slice(0, 1), slice(1, 10), slice(13, 21)  # three numbers belong to no piece
BEGINS = tuple(piece.start for piece in PIECES)


def make(seed, size=SIZE):
    return torch.randn(COUNT, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def without_gaps(tensor):
    return torch.cat([tensor[:, piece] for piece in PIECES], dim=1)


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
        kept, pieces = grad.clone(), [grad[:, piece] for piece in PIECES]
        adam_step(inner[0], pieces, *inner[1:], begins=BEGINS, **rates, count=torch.tensor(step), clip=clip,
                  betas=betas, eps=eps, decoupled=decoupled)  # fmt: skip
        assert grad.equal(kept)
    expected = by_torch(without_gaps(begin), [without_gaps(grad) for grad in grads], clip, decoupled, betas, eps)
    for ours, theirs, before in zip(inner, expected, beside, strict=True):
        torch.testing.assert_close(without_gaps(ours), theirs, rtol=1e-12, atol=1e-14)
        gap = PIECES[1].stop + SIDE, PIECES[2].start + SIDE
        assert before[:, gap[0] : gap[1]].equal(ours[:, gap[0] - SIDE : gap[1] - SIDE])
    for ours, before in zip(whole, beside, strict=True):
        assert ours[:, :SIDE].equal(before[:, :SIDE])
        assert ours[:, -SIDE:].equal(before[:, -SIDE:])


def test_a_run_that_is_lost_leaves_the_others_alone():
    found = []
    for lost in (False, True):
        weight, first, second = make(0), *torch.zeros(2, COUNT, SIZE, dtype=torch.float64)
        grad, rate = make(1), torch.ones(COUNT, dtype=torch.float64)
        if lost:
            grad[1, 3] = float("nan")
        more = {"lr": rate, "decay": rate, "count": torch.tensor(1)}
        adam_step(weight, [grad[:, :5], grad[:, 5:]], first, second, begins=(0, 5), **more, clip=1.0)
        found.append(weight)
    assert found[1][1].isnan().all()
    assert found[0][[0, 2]].equal(found[1][[0, 2]])


def test_gradients_of_other_types_and_a_copy_of_the_weights():
    weight, first, second = make(0), *torch.zeros(2, COUNT, SIZE, dtype=torch.float64)
    rate, grad = torch.ones(COUNT, dtype=torch.float64), make(1)
    pieces = [grad[:, :5].to(torch.bfloat16), grad[:, 5:18].float()]
    before, low = weight.clone(), torch.zeros_like(weight, dtype=torch.bfloat16)
    adam_step(weight, pieces, first, second, begins=(0, 5), lr=rate, decay=rate, count=torch.tensor(1), used=low)
    torch.testing.assert_close(first[:, :18], 0.1 * torch.cat([piece.double() for piece in pieces], dim=1))
    assert low[:, :18].equal(weight[:, :18].to(torch.bfloat16))
    assert not low[:, 18:].any()
    assert (weight != before).all(0).nonzero().max() == 17


def test_bad_input():
    rate, one, whole = torch.ones(COUNT), torch.ones(()), make(0)
    rates = {"lr": rate, "decay": rate, "count": one}

    def message(text, grads=(whole,), begins=(0,), first=whole, second=whole, **more):
        with pytest.raises(ValueError, match=text):
            adam_step(whole, grads, first, second, begins=begins, **rates, **more)

    for name in ("first", "second", "used"):
        message(rf"`{name}` must have shape \[3, 21\], got \[3, 20\]", **{name: whole[:, 1:]})
        turned = whole.t().contiguous().t()
        message(rf"`{name}` must have the strides \(21, 1\), got \(1, 3\)", **{name: turned})
    message(r"`grads` must be as many as `begins`, one at least, got 1 and 2", begins=(0, 1))
    message(r"`grads` must be as many as `begins`, one at least, got 0 and 0", grads=(), begins=())
    message(r"`grads` must have shape \[3, P'\], got \[2, 21\]", grads=(whole[:2],))
    for begin in (-1, 1):
        message(rf"`begins` must leave room for 21 of 21 columns, got {begin}", begins=(begin,))
    message(r"`impl` must be one of .* on this machine, got 'fused'", impl="fused")
