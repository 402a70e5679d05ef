import torch

from graphprism.training.lockstep.networks import OwnerReadout
from tests.ops.cases import normal

OWNER = torch.tensor([[2, -1, 0, 2, -1], [1, 1, 1, -1, 0]], dtype=torch.int32)


def make(mean):
    readout = OwnerReadout(mean)
    readout.num_graphs = 3
    return readout


def by_hand(h, owner, mean):
    graphs = [h[owner == graph] for graph in range(3)]
    return torch.stack([graph.sum(0) / (max(1, len(graph)) if mean else 1) for graph in graphs])


def test_sums_and_means_by_hand():
    h = torch.tensor([[1.0], [10.0], [100.0], [1000.0], [10000.0]])
    assert make(mean=False)(h, OWNER[0]).tolist() == [[100], [0], [1001]]
    assert make(mean=True)(h, OWNER[0]).tolist() == [[100], [0], [500.5]]


def test_many_runs_and_their_gradients():
    h, grad = normal(2, 5, 4), normal(2, 3, 4, seed=1).detach()
    for mean in (False, True):
        ours = torch.vmap(make(mean))(h, OWNER)
        theirs = torch.stack([by_hand(*each, mean) for each in zip(h, OWNER, strict=True)])
        torch.testing.assert_close(ours, theirs)
        found, expected = (torch.autograd.grad(out, h, grad)[0] for out in (ours, theirs))
        torch.testing.assert_close(found, expected)


def test_low_precision_is_summed_in_float32():
    # 600 ones of bfloat16 would stop at 256
    h = torch.ones(600, 2, dtype=torch.bfloat16, requires_grad=True)
    for mean in (False, True):
        out = make(mean)(h, torch.zeros(600, dtype=torch.int32))
        assert out.dtype == torch.float32
        assert out[0].tolist() == ([1, 1] if mean else [600, 600])


def test_no_weights():
    assert not make(mean=True).state_dict()
