from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.networks import Networks
from graphprism.training.lockstep.step import LockstepStep
from graphprism.training.task import Task
from tests.training.lockstep.eager import CPU
from tests.training.test_train import labelled

RUN = Run(layers=2, width=6, batch_size=3, precision="float64", norm="batch")
RUNS = [RUN, replace(RUN, seed=1)]


def make(dataset, length=120, steps=4, **change):
    runs = [replace(run, **change) for run in RUNS]
    data = TableDataset(runs[0], dataset, CPU, torch.float32 if change else torch.float64)
    networks, task = Networks(runs, dataset, data, CPU), Task.of(dataset)
    return LockstepStep(runs, networks, data, task, steps=steps, batch_size=3, length=length), data


@pytest.mark.parametrize("task", ["regression", "multilabel", "multiclass"])
def test_the_loss_and_its_gradient_are_those_of_the_task(task):
    dataset = molecules(96) if task == "regression" else labelled(task)
    step, data = make(dataset)
    graphs = torch.tensor([[[4, 11, 7], [0, 1, data.no_graph]]])  # run 1 has two graphs
    step.fill(graphs)
    output = torch.randn(2, 3, dataset.num_outputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, target, share = step._now(120)
    grad, loss = step._loss(output, target, share), step.losses[0]
    for number, count in enumerate((3, 2)):
        one = output[number].clone().requires_grad_()
        expected = Task.of(dataset).losses(one[:count], data.y[graphs[0, number, :count]]).mean()
        torch.testing.assert_close(loss[number], expected.detach())
        torch.testing.assert_close(grad[number], torch.autograd.grad(expected, one)[0])


def test_a_counter_says_whose_turn_it_is():
    step, _ = make(molecules(24))
    step.lr.fill_(1e-3)
    graphs = torch.arange(12).view(2, 2, 3)
    step.fill(graphs)
    assert step.steps == 4
    step.step(120)
    first = step.losses.clone()
    step.step(100)
    assert step.turn.item() == 2
    assert step.count.item() == 2
    assert step.losses[0].equal(first[0])
    assert step.losses[1].all()
    assert not step.losses[2:].any()
    step.fill(graphs)  # the next piece of the epoch: turns begin anew, steps of the optimiser do not
    assert step.turn.item() == 0
    assert step.count.item() == 2


def test_the_rows_beyond_a_batch_do_not_matter():
    found = []
    for length in (120, 200):
        step, _ = make(molecules(24), length=length)
        step.lr.fill_(1e-2)
        step.fill(torch.arange(12).view(2, 2, 3))
        for _ in range(2):
            step.step(length)
        found.append((step.losses.clone(), step._networks.parameters.flat, step._networks.parameters.buffers))
    torch.testing.assert_close(found[0], found[1], rtol=1e-7, atol=1e-7)


def test_the_state_is_all_that_a_step_changes():
    step, _ = make(molecules(24))
    step.lr.fill_(1e-2)
    step.fill(torch.arange(12).view(2, 2, 3))
    before = {name: tensor.clone() for name, tensor in step.state().items()}
    step.step(120)
    after = {name: tensor.clone() for name, tensor in step.state().items()}
    assert any("running_mean" in name for name in after)
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed >= {"weight", "first", "second", "count", "turn"}
    for name, tensor in step.state().items():  # taken back, the same step does the same
        tensor.copy_(before[name])
    step._networks.parameters.refresh()
    step.step(120)
    assert all(tensor.equal(after[name]) for name, tensor in step.state().items())


@pytest.mark.parametrize(
    "change", [{"start": "independent", "precision": "bf16"}, {"precision": "bf16"}, {"precision": "float32"}], ids=str
)
def test_used_weights_are_those_of_the_last_step(change):
    found = []
    for refreshed in (False, True):
        step, _ = make(molecules(24), **change)
        parameters = step._networks.parameters
        step.lr.fill_(1e-2)
        parameters.flat.mul_(0.9)  # as a checkpoint that is read
        step.fill(torch.arange(12).view(2, 2, 3))
        for _ in range(2):
            if refreshed:
                parameters.refresh()
            step.step(120)
        assert step.derived()[0] is parameters.used
        found.append((parameters.flat, parameters.used))
    assert all(ours.equal(theirs) for ours, theirs in zip(*found, strict=True))
    parameters.refresh()
    assert parameters.used.equal(found[0][1])
    is_copy = parameters.used.equal(parameters.flat.to(parameters.used.dtype))
    assert is_copy == ("start" in change)
    assert make(molecules(24), start="independent")[0].derived() == []


def test_channels_that_fill_up_stay_zero():
    step, _ = make(molecules(24))
    step.lr.fill_(1e-2)
    step.fill(torch.arange(12).view(2, 2, 3))
    for _ in range(2):
        step.step(120)
    parameters = step._networks.parameters
    after = parameters.flat.clone()
    for number in range(2):
        parameters.load(number, parameters.extract(number))  # keeps the own channels alone
    assert parameters.flat.equal(after)
    assert (after == 0).sum() > 0.5 * after.numel()  # six channels of sixteen are in use
