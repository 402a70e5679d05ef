"""What holds for runs on graphs whatever engine trains them: states that go over, early stopping, scores."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.training import Run, load_best, session, train, train_lockstep
from graphprism.training.checkpoint import RunFolder
from graphprism.training.provenance import data_identity
from graphprism.training.session import Session
from graphprism.training.task import Task
from tests.pairwise import IS_SLOW, in_turn
from tests.training.checkpoints import parts_of, same_bits
from tests.training.lockstep.eager import evaluate, make_engine
from tests.training.test_train import labelled

DATASET = molecules(96)
RUN = Run(layers=2, width=10, epochs=6, warmup=1, batch_size=24, precision="float64", lr=1e-2, start="independent")
SCORES = ("lr", "train_loss", "train", "val", "test")
MODES = {
    "eager": lambda run, dataset, **more: train(run, dataset, accelerator="cpu", **more),
    "lockstep": lambda run, dataset, **more: train_lockstep([run], dataset, accelerator="cpu", **more)[0],
    # the second of three
    "lockstep beside others": lambda run, dataset, **more: train_lockstep(
        [replace(run, seed=91), run, replace(run, seed=92)], dataset, accelerator="cpu", **more
    )[1],
}


def interrupted_at(epoch, seen):
    def stop(report):
        seen.append((report.run, report.epoch))
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return stop


@in_turn(
    change=[
        {"norm": "batch"},
        {"model": "mrs-gated-gcn"},
        {"model": "mrs-gat", "pe": 3, "jk": "cat", "optimizer": "adam", "weight_decay": 0.1},
        *([{}] if IS_SLOW else []),
    ],
    engines=[("eager", "lockstep"), ("lockstep beside others", "eager"), ("lockstep", "eager")],
)
def test_run_goes_on_in_another_engine(tmp_path, engines, change):
    first, second = engines
    run, dataset, seen = replace(RUN, **change), DATASET, []
    with pytest.raises(KeyboardInterrupt):
        MODES[first](run, dataset, folder=tmp_path, on_epoch=interrupted_at(3, []))
    assert len(parts_of(tmp_path, run)["history"]["val"]) == 3
    with pytest.warns(UserWarning, match="up to epoch 3 and goes on by .*: its bits will differ"):
        found = MODES[second](run, dataset, folder=tmp_path, on_epoch=lambda report: seen.append(report.epoch))
    assert seen == [4, 5, 6]
    whole = {name: MODES[name](run, dataset, folder=tmp_path / name) for name in ("eager", "lockstep")}
    for name, expected in whole.items():
        for score in SCORES:
            # biases before a batch norm move by rounding alone; evaluation shows it, training does not
            has_norm = run.norm or CONVOLUTIONS[run.model].has_batch_norm
            rel = 1e-5 if has_norm and score in ("val", "test") else 1e-9
            assert found.history[score] == pytest.approx(expected.history[score], rel=rel), (name, score)
        assert found.best_epoch == expected.best_epoch
        ours, theirs = (parts_of(folder, run)["state"] for folder in (tmp_path, tmp_path / name))
        assert ours["steps"] == theirs["steps"] == 6 * 4
        torch.testing.assert_close(ours["model"], theirs["model"], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(ours["best"], theirs["best"], rtol=1e-6, atol=1e-6)


def test_run_goes_on_in_another_engine_with_its_best_weights(tmp_path):
    # the best epoch is before the change of engine: nothing but the state can tell its weights
    run = replace(RUN, lr=0.3, schedule="constant", seed=3)
    for first, second in (("eager", "lockstep"), ("lockstep", "eager")):
        folder = tmp_path / first
        with pytest.raises(KeyboardInterrupt):
            MODES[first](run, DATASET, folder=folder, on_epoch=interrupted_at(3, []))
        before = parts_of(folder, run, "best.pt")
        with pytest.warns(UserWarning, match="its bits will differ"):
            result = MODES[second](run, DATASET, folder=folder)
        assert result.best_epoch == before["epoch"] < 3
        (folder / run.key / "best.pt").unlink()
        MODES[first](run, DATASET, folder=folder)
        assert same_bits(parts_of(folder, run, "best.pt"), before)


@in_turn(mode=[*MODES], task=["regression", "multiclass"])
def test_patience_stops_runs_on_graphs(tmp_path, mode, task):
    dataset = DATASET if task == "regression" else labelled(task)
    run = replace(RUN, lr=0.3, epochs=14, schedule="constant", seed=3)
    whole = MODES[mode](run, dataset).history["val"]
    best = max if task == "multiclass" else min
    expected = next(epoch for epoch in range(1, 15) if epoch - 1 - whole.index(best(whole[:epoch])) >= 2)
    assert expected < 14
    seen, run = [], replace(run, patience=2)
    result = MODES[mode](run, dataset, folder=tmp_path, on_epoch=seen.append)
    own = [report for report in seen if report.run == run]
    assert result.status == "finished"
    assert result.history["val"] == pytest.approx(whole[:expected], rel=1e-9)
    assert result.best_epoch == expected - 2
    assert [report.epoch for report in own] == list(range(1, expected + 1))
    assert own[-1].remaining_seconds == 0
    assert len(parts_of(tmp_path, run)["history"]["val"]) == expected
    # it is over, called again as well
    seen.clear()
    assert MODES[mode](run, dataset, folder=tmp_path, on_epoch=seen.append).history == result.history
    assert [report for report in seen if report.run == run] == []


def finish(engine, folder, dataset=DATASET):
    """Trains what an engine holds, with checkpoints after the first epoch and at the end alone."""
    data = data_identity(dataset)
    folders = [RunFolder(folder, run, data) for run in engine.runs]
    try:
        return Session(engine, Task.of(dataset), data, folders, [None for _ in folders]).finish()
    finally:
        for each in folders:
            each.close()


def test_run_that_stopped_early_keeps_the_weights_of_its_last_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_SHARE", 1e9)
    run = replace(RUN, lr=0.3, epochs=14, schedule="constant", patience=2)
    runs = [replace(run, seed=3), replace(run, seed=0, lr=1e-3)]
    beside = finish(make_engine(runs, DATASET), tmp_path / "beside")
    lengths = [len(result.history["val"]) for result in beside]
    assert lengths[0] < lengths[1]  # it is trained further beside the other
    finish(make_engine(runs[:1], DATASET), tmp_path / "alone")
    ours, theirs = (parts_of(tmp_path / name, runs[0]) for name in ("beside", "alone"))
    assert ours["state"]["steps"] == theirs["state"]["steps"] == 4 * lengths[0]
    torch.testing.assert_close(ours["state"], theirs["state"], rtol=1e-9, atol=1e-12)


def test_run_that_diverges_beside_others_keeps_its_best_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "_SHARE", 1e9)
    runs = [replace(RUN, seed=0), replace(RUN, seed=1)]
    engine = make_engine(runs, DATASET)
    real = engine.train_epoch

    def train_epoch(epoch, active):
        if epoch == 4:
            engine.networks.parameters.flat[0] = float("nan")
        return real(epoch, active)

    monkeypatch.setattr(engine, "train_epoch", train_epoch)
    results = finish(engine, tmp_path)
    assert [result.status for result in results] == ["diverged", "finished"]
    assert results[0].extra == {"diverged_epoch": 5, "diverged_step": 1}
    assert results[0].best_epoch > 1  # when the last checkpoint was written
    for run, result in zip(runs, results, strict=True):
        output = evaluate(load_best(tmp_path, run, DATASET), run, DATASET, "val")
        target = DATASET.batch(DATASET.subset("val")).y
        assert Task.of(DATASET).score(output, target) == pytest.approx(min(result.history["val"]), rel=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_accuracy_is_in_percent(tmp_path, mode):
    dataset = labelled("multiclass")
    result = MODES[mode](RUN, dataset, folder=tmp_path)
    assert (result.metric, result.larger_is_better) == ("accuracy", True)
    network = load_best(tmp_path, RUN, dataset)
    for fold in ("val", "test"):
        target = dataset.batch(dataset.subset(fold)).y.view(-1)
        right = evaluate(network, RUN, dataset, fold).argmax(1) == target
        found = 100 * int(right.sum()) / target.numel()
        assert found == pytest.approx(result.history[fold][result.best_epoch - 1])
    # counts of 80 graphs
    assert [round(value * 0.8, 6) % 1 for value in result.history["train"]] == [0] * 6
    assert max(result.history["train"]) > 1


def test_runs_without_batches_are_grouped_by_all_that_must_be_equal():
    run = replace(RUN, batch_size=None, epochs=2)
    runs = [run, replace(run, seed=1), replace(run, dropout=0.5), replace(run, layers=3)]
    results = train_lockstep(runs, DATASET, accelerator="cpu")
    assert [result.hardware["runs_at_once"] for result in results] == [2, 2, 1, 1]
    for one, result in zip(runs, results, strict=True):
        if not one.dropout:
            assert result.history["val"] == pytest.approx(MODES["eager"](one, DATASET).history["val"], rel=1e-9)
