"""Networks whose parameters have rates and decays of their own."""

import copy

import pytest
import torch

from graphprism.nn import BASELINES
from graphprism.training import Run
from graphprism.training.optim import load_moments, make_optimizer, moments, parameter_groups, set_learning_rate

RUN = Run(model="fsgnn", batch_size=None, width=4, optimizer="adam", lr=0.1, weight_decay=0.25)


def network():
    torch.manual_seed(0)
    return BASELINES["fsgnn"].make(3, 4, 2, 1, num_nodes=5, soft_lr=2.0, soft_decay=0.5, head_decay=0.125).double()


def step(model, optimizer):
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()


def test_groups_have_their_rates_and_decays():
    optimizer = make_optimizer(RUN, parameter_groups(RUN, network()))
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [
        (0.1, 0.25), (0.2, 0.5), (0.1, 0.125),
    ]  # fmt: skip
    set_learning_rate(optimizer, 0.01)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.02, 0.01])


def test_a_network_without_groups_has_one():
    linear = torch.nn.Linear(2, 2)
    assert parameter_groups(RUN, linear) == [{"params": [*linear.parameters()]}]


def test_moments_find_their_parameters_in_another_order():
    first = network()
    optimizer = make_optimizer(RUN, parameter_groups(RUN, first))
    step(first, optimizer)
    one, two, steps = moments(first, optimizer)
    assert {name: value.shape for name, value in one.items()} == {
        name: parameter.shape for name, parameter in first.named_parameters()
    }
    second = copy.deepcopy(first)
    resumed = make_optimizer(RUN, parameter_groups(RUN, second))
    load_moments(second, resumed, {"model": {}, "first": one, "second": two, "steps": steps, "best": None})
    step(first, optimizer)
    step(second, resumed)
    torch.testing.assert_close(dict(second.named_parameters()), dict(first.named_parameters()))
