import copy

import pytest
import torch

from graphprism.training.node import build_node_model, train_node, train_nodes
from graphprism.training.node.captured_step import CapturedStep
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_run import NODE_MODELS
from graphprism.training.node.node_step import SLOTS, NodeStep
from tests.training.node.node_sets import numbers, small_run, small_set

pytestmark = pytest.mark.gpu


def make_step(run):
    dataset = small_set()
    return NodeStep(run, build_node_model(run, dataset), NodeData.prepare(run, dataset, torch.device("cuda")))


def history(step, epochs=6):
    for epoch in range(1, epochs + 1):
        step(epoch)
    return step.read()


@pytest.mark.parametrize("model", NODE_MODELS)
def test_a_captured_step_is_the_step(model):
    run = small_run(model=model, dropout=0.5, alpha=0.5)
    eager, captured = history(make_step(run)), history(CapturedStep(make_step(run)))
    for expected, found in zip(eager, captured, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)
    assert len({row[0] for row in captured}) == 6  # it trains, and drops something else in every epoch


@pytest.mark.parametrize("model", ["mlp", "mrs-gcn", "mrs-dir-gcn"])
def test_a_captured_step_drops_features(model):
    run = small_run(model=model, dropout=0.5, input_dropout=True)
    eager, captured = history(make_step(run)), history(CapturedStep(make_step(run)))
    for expected, found in zip(eager, captured, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)
    only_hidden = history(make_step(small_run(model=model, dropout=0.5)))
    assert captured[0][0] != pytest.approx(only_hidden[0][0], rel=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_captured_step_in_other_precisions(precision):
    run = small_run(dropout=0.5, precision=precision)
    losses = [[row[0] for row in history(step)] for step in (make_step(run), CapturedStep(make_step(run)))]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4 if precision == "float32" else 0.05)


def test_a_step_that_goes_on_from_a_state_is_captured_with_it():
    run = small_run(dropout=0.5)
    first = CapturedStep(make_step(run))
    whole = history(first, 8)
    half = CapturedStep(make_step(run))
    history(half, 4)
    resumed = make_step(run)
    resumed.load(copy.deepcopy(half.state()))
    resumed = CapturedStep(resumed)
    for epoch in range(5, 9):
        resumed(epoch)
    assert [row[0] for row in resumed.read()] == pytest.approx([row[0] for row in whole[4:]], rel=1e-9)


def test_many_at_once_give_what_each_gives_alone():
    options = [
        {},
        {"fold": 1, "dropout": 0.5},
        {"fold": 2, "seed": 3},
        {"lr": 0.1, "patience": 2},
        {"model": "dir-gcn"},
    ]
    runs = [small_run(**{"epochs": 2 * SLOTS + 3, **each}) for each in options]
    together = train_nodes(runs, small_set(), accelerator="cuda")
    for run, result in zip(runs, together, strict=True):
        alone = numbers(train_node(run, small_set(), accelerator="cuda"))
        assert len(alone["val"]) == len(result.history["val"])
        for name, column in numbers(result).items():
            assert column == pytest.approx(alone[name], rel=1e-9)
    assert len(together[3].history["val"]) < 2 * SLOTS


def test_the_gpu_gives_what_the_cpu_gives():
    run = small_run(dropout=0.0)
    there, here = (train_node(run, small_set(), accelerator=name) for name in ("cuda", "cpu"))
    assert there.history["train_loss"] == pytest.approx(here.history["train_loss"], rel=1e-9)
    assert there.history["test"] == here.history["test"]


def test_a_checkpoint_of_the_gpu_is_gone_on_from(tmp_path):
    run = small_run(epochs=2 * SLOTS, dropout=0.5)
    whole = train_node(run, small_set(), accelerator="cuda")

    def stop(report):
        if report.epoch == SLOTS + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_node(run, small_set(), folder=tmp_path, accelerator="cuda", on_epoch=stop, checkpoint_seconds=0)
    epochs = []
    resumed = train_node(
        run, small_set(), folder=tmp_path, accelerator="cuda", on_epoch=lambda report: epochs.append(report.epoch)
    )
    assert epochs[0] == SLOTS + 1
    assert resumed.history["train_loss"] == pytest.approx(whole.history["train_loss"], rel=1e-9)
