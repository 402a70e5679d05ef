import random

import numpy as np
import pytest
import torch
from torch_geometric.nn import (
    GCN,
    GCNConv,
)

from graphprism.analysis.collapse import collapse

from .setting import build, classes, ring


class Everything(torch.nn.Module):
    """Batch norm, dropout, a cache, a list that grows, random numbers, and a wish to fail."""

    def __init__(self):
        super().__init__()
        self.first = GCNConv(4, 8, cached=True)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)
        self.second = GCNConv(8, 3)
        self.seen = []
        self.fails = False

    def forward(self, x, edge_index):
        np.random.rand()
        random.random()
        self.seen.append(x)
        self.last = x
        h = self.drop(self.norm(self.first(x, edge_index)).relu_())
        if self.fails:
            raise RuntimeError("as asked")
        return self.second(h, edge_index)


def snapshot(model):
    return {
        "state": {name: value.clone() for name, value in model.state_dict().items()},
        "identity": {name: id(value) for name, value in model.state_dict(keep_vars=True).items()},
        "versions": {name: value._version for name, value in model.state_dict(keep_vars=True).items()},
        "modes": {name: module.training for name, module in model.named_modules()},
        "grads": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "trainable": {name: p.requires_grad for name, p in model.named_parameters()},
        "hooks": {name: [*m._forward_hooks, *m._forward_pre_hooks] for name, m in model.named_modules()},
        "seen": list(model.seen),
        "attributes": sorted(vars(model)),
        "cache": model.first._cached_edge_index,
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
    }


def assert_same(before, after):
    for key, value in before.items():
        if key in ("state", "grads"):
            assert value.keys() == after[key].keys()
            assert all(
                torch.equal(value[name], after[key][name]) if value[name] is not None else after[key][name] is None
                for name in value
            ), key
        elif key == "torch":
            assert torch.equal(value, after[key])
        else:
            assert value == after[key], key


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("labels", [None, classes()])
def test_the_model_is_left_as_it_was(fails, labels):
    model = build(Everything)
    model.drop.eval()
    model.second.bias.requires_grad_(False)
    model.first.lin.weight.grad = torch.ones_like(model.first.lin.weight)
    calls = []
    handle = model.first.register_forward_hook(lambda *_: calls.append(1))
    model.fails = fails
    before = snapshot(model)
    if fails:
        with pytest.raises(RuntimeError, match="as asked"):
            collapse(model, ring(), labels)
    else:
        assert len(collapse(model, ring(), labels).rows) == 2
    assert_same(before, snapshot(model))
    assert calls == [1]
    handle.remove()
    assert not model.first._forward_hooks


def test_also_after_an_exception_in_the_loss():
    model = build(Everything)
    before = snapshot(model)
    with pytest.raises(ZeroDivisionError):
        collapse(model, ring(), loss=lambda output, labels: 1 / 0)
    assert_same(before, snapshot(model))


def test_a_graph_that_waits_for_backward_is_not_disturbed():
    model = build(Everything)
    pending = model(ring().x, ring().edge_index).sum()
    collapse(model, ring(), classes())
    pending.backward()


def test_a_loss_that_runs_the_model_again_adds_no_rows():
    model, data = build(Everything), ring()
    report = collapse(model, data, loss=lambda output, _: (output - model(data.x, data.edge_index)).square().mean())
    assert len(report.rows) == 2


@pytest.mark.gpu
def test_the_model_is_left_as_it_was_on_a_gpu():
    model, data = build(Everything).cuda(), ring().to("cuda")
    before, state = snapshot(model), torch.cuda.get_rng_state()
    report = collapse(model, data, classes().cuda())
    assert_same(before, snapshot(model))
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert all(row.output_gradient > 0 for row in report.rows)


def test_runs_in_the_mode_of_the_model():
    model = build(GCN, 4, 8, num_layers=2, norm="batch_norm")
    in_training = collapse(model, ring()).rows[1]
    in_evaluation = collapse(model.eval(), ring()).rows[1]
    assert in_training.frobenius_norm != in_evaluation.frobenius_norm
