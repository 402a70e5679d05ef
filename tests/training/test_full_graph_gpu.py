"""Runs on nodes on a GPU: captured steps on streams of their own, epochs that run ahead of the session."""

from dataclasses import replace

import pytest
import torch

from graphprism.nn import BASELINES, REMEDIES
from graphprism.training import build_model, load_best, train
from graphprism.training.full_graph import _EPOCHS_AHEAD, CapturedFullGraphStep, FullGraphEngine, FullGraphStep
from graphprism.training.node_data import NodeData
from graphprism.training.train import _finish
from tests.training.node_sets import NODE_MODELS, numbers, small_run, small_set

pytestmark = pytest.mark.gpu


def make_step(run, make=FullGraphStep):
    dataset = small_set()
    return make(run, build_model(run, dataset), NodeData.prepare(run, dataset, torch.device("cuda")))


def history(step, epochs=6):
    for epoch in range(epochs):
        step(epoch)
    return step.read()


def assert_captured_is_eager(run):
    eager, captured = history(make_step(run)), history(make_step(run, CapturedFullGraphStep))
    for expected, found in zip(eager, captured, strict=True):
        assert found == pytest.approx(expected, rel=1e-9)
    return captured


@pytest.mark.parametrize("model", NODE_MODELS)
def test_captured_step_is_the_step(model):
    captured = assert_captured_is_eager(small_run(model=model, dropout=0.5, alpha=0.5))
    assert len({row[0] for row in captured}) == 6  # it trains, and drops something else in every epoch


@pytest.mark.parametrize("model", BASELINES)
def test_captured_step_of_a_baseline_is_the_step(model):
    if model in ("digcn", "magnet"):
        pytest.importorskip("torch_geometric_signed_directed", reason="needs graphprism[baselines]")
    drops = BASELINES[model].drops_features
    captured = assert_captured_is_eager(small_run(model=model, dropout=0.5, input_dropout=drops, weight_decay=0.01))
    assert len({row[0] for row in captured}) == 6


@pytest.mark.parametrize("remedy", REMEDIES)
def test_captured_step_of_a_remedy_is_the_step(remedy):
    plain = {"model": "gcn", "encode": True, "jk": None, "normalize": False, "self_loops": True}
    assert_captured_is_eager(small_run(remedy=remedy, dropout=0.5, layers=4, **plain))


@pytest.mark.parametrize("model", ["mlp", "mrs-gcn", "mrs-dir-gcn"])
def test_captured_step_drops_features(model):
    captured = assert_captured_is_eager(small_run(model=model, dropout=0.5, input_dropout=True))
    only_hidden = history(make_step(small_run(model=model, dropout=0.5)))
    assert captured[0][0] != pytest.approx(only_hidden[0][0], rel=1e-6)


@pytest.mark.parametrize("options", [{"schedule": "cosine", "warmup": 2}, {"clip": 0.01}, {"optimizer": "adamw"}])
def test_captured_step_of_other_protocols(options):
    run = small_run(epochs=6, weight_decay=0.1, lr=0.1, **options)
    # a rate that changes is read from the device, where it has the digits of float32
    eager, captured = history(make_step(replace(run))), history(make_step(run, CapturedFullGraphStep))
    for expected, found in zip(eager, captured, strict=True):
        assert found == pytest.approx(expected, rel=1e-6)
    assert captured[1][0] != pytest.approx(history(make_step(small_run(epochs=6, weight_decay=0.1, lr=0.1)))[1][0])


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_captured_step_in_other_precisions(precision):
    run = small_run(dropout=0.5, precision=precision)
    losses = [[row[0] for row in history(make_step(run, make))] for make in (FullGraphStep, CapturedFullGraphStep)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4 if precision == "float32" else 0.05)


def test_engine_that_goes_on_from_a_state():
    run, device = small_run(dropout=0.5, epochs=8), torch.device("cuda")
    whole, half, resumed = (FullGraphEngine([each], small_set(), device) for each in (run, replace(run, epochs=4), run))
    expected = [whole.train_epoch(epoch, [True]).loss[0] for epoch in range(8)]
    for epoch in range(4):
        half.train_epoch(epoch, [True])
    resumed.load(0, half.state(0), None, 4)
    found = [resumed.train_epoch(epoch, [True]).loss[0] for epoch in range(4, 8)]
    assert found == pytest.approx(expected[4:], rel=1e-9)


def test_many_at_once_give_what_each_gives_alone(tmp_path):
    options = [
        {},
        {"fold": 1, "dropout": 0.5},
        {"fold": 2, "seed": 3},
        {"lr": 0.1, "patience": 2},
        {"model": "dir-gcn"},
    ]
    runs = [small_run(**{"epochs": 2 * _EPOCHS_AHEAD + 3, **each}) for each in options]
    together = _finish(FullGraphEngine(runs, small_set(), torch.device("cuda")), small_set(), tmp_path, None)
    for run, result in zip(runs, together, strict=True):
        alone = numbers(train(run, small_set(), accelerator="gpu"))
        assert len(alone["val"]) == len(result.history["val"])
        for name, column in numbers(result).items():
            assert column == pytest.approx(alone[name], rel=1e-9)
        data = NodeData.prepare(run, small_set(), torch.device("cpu"))
        right = load_best(tmp_path, run, small_set())(data.x, data.adj).argmax(1) == data.y
        found = 100 * right[data.masks[1, :, run.fold]].double().mean().item()
        assert found == pytest.approx(max(result.history["val"]))
    assert len(together[3].history["val"]) < 2 * _EPOCHS_AHEAD


def test_gpu_gives_what_the_cpu_gives():
    run = small_run(dropout=0.0)
    there, here = (train(run, small_set(), accelerator=name) for name in ("gpu", "cpu"))
    assert there.history["train_loss"] == pytest.approx(here.history["train_loss"], rel=1e-9)
    assert there.history["test"] == here.history["test"]


def test_interrupted_run_goes_on(tmp_path):
    run = small_run(epochs=2 * _EPOCHS_AHEAD, dropout=0.5)
    whole = train(run, small_set(), accelerator="gpu")

    def stop(report):
        if report.epoch == _EPOCHS_AHEAD + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, small_set(), folder=tmp_path, accelerator="gpu", on_epoch=stop)
    epochs = []
    resumed = train(
        run, small_set(), folder=tmp_path, accelerator="gpu", on_epoch=lambda report: epochs.append(report.epoch)
    )
    assert epochs[0] == _EPOCHS_AHEAD + 1
    assert resumed.history["train_loss"] == pytest.approx(whole.history["train_loss"], rel=1e-9)


@pytest.mark.parametrize("order", [("gpu", "cpu"), ("cpu", "gpu")])
def test_run_goes_on_on_another_device(tmp_path, order):
    run = small_run(epochs=_EPOCHS_AHEAD + 8, dropout=0.0)

    def stop(report):
        if report.epoch == _EPOCHS_AHEAD:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, small_set(), folder=tmp_path, accelerator=order[0], on_epoch=stop)
    with pytest.warns(UserWarning, match="its bits will differ"):
        resumed = train(run, small_set(), folder=tmp_path, accelerator=order[1])
    whole = train(run, small_set(), accelerator="cpu")
    assert resumed.history["train_loss"] == pytest.approx(whole.history["train_loss"], rel=1e-7)
