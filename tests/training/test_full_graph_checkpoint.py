"""Checkpoints of runs on nodes: interrupted, killed, damaged, and of engines that run ahead of their session."""

import json
import signal
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from graphprism.results import RunResult
from graphprism.training import CheckpointError, load_best, session, train_lockstep
from graphprism.training import train as train_run
from graphprism.training.checkpoint import RunFolder
from graphprism.training.full_graph import FullGraphEngine
from graphprism.training.node_data import NodeData
from graphprism.training.train import _finish
from tests.pairwise import in_turn
from tests.training.checkpoints import parts_of, same_bits
from tests.training.killable import host
from tests.training.node_sets import numbers, small_run, small_set, sparse_set

CPU = torch.device("cpu")
# Three runs, two at once: two groups.
RUNS = [small_run(dropout=0.5), small_run(dropout=0.5, fold=1), small_run(dropout=0.5, seed=3)]


def train(run, dataset=None, **options):
    return train_run(run, dataset or small_set(), accelerator="cpu", **options)


def interrupted_at(epoch):
    def stop(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return stop


@in_turn(
    options=[
        {"dropout": 0.5},
        {"model": "dir-sage", "patience": 3, "lr": 0.1},
        {"schedule": "cosine", "warmup": 3, "optimizer": "adamw", "weight_decay": 0.1},
        {"input_dropout": True, "dropout": 0.5, "precision": "float32"},
    ],
    make={"dense": small_set, "sparse": sparse_set},
)
def test_interrupted_run_ends_as_if_it_was_not(tmp_path, options, make):
    run, epochs = small_run(**options), []
    whole = train(run, make(), folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(run, make(), folder=tmp_path, on_epoch=interrupted_at(4))
    result = train(run, make(), folder=tmp_path, on_epoch=lambda report: epochs.append(report.epoch))
    assert epochs[0] == 5  # the checkpoint is that of epoch 4
    assert numbers(result) == numbers(whole)
    assert result.best_epoch == whole.best_epoch
    for name in ("checkpoint.pt", "best.pt"):
        assert same_bits(parts_of(tmp_path, run, name), parts_of(tmp_path / "whole", run, name))


@pytest.fixture(scope="module")
def grid_in_process(warm_python):
    with host(warm_python, Path(__file__).with_name("lockstep") / "forked_grid.py") as ask:
        yield lambda folder, **more: ask(
            {"runs": [asdict(run) for run in RUNS], "level": "node", "folder": str(folder), **more}
        )


def found_in(folder):
    results = [RunResult.from_json(text) for text in json.loads((folder / "results.json").read_text("utf-8"))]
    names = ("checkpoint.pt", "best.pt")
    return [numbers(result) for result in results], [parts_of(folder, run, name) for run in RUNS for name in names]


@pytest.fixture(scope="module")
def undisturbed(grid_in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert grid_in_process(folder) == 0
    return found_in(folder)


def epochs_in(folder):
    paths = [folder / run.key / "checkpoint.pt" for run in RUNS]
    return [len(torch.load(path, weights_only=True)["parts"]["step_ms"]) if path.exists() else 0 for path in paths]


# Two steps of the first group in each of twelve epochs, and after each two checkpoints and the best.pt of those that
# are better.
@pytest.mark.parametrize(
    ("moment", "epochs"),
    [
        pytest.param(("step", 1), [0, 0, 0], marks=pytest.mark.slow),
        pytest.param(("step", 14), [6, 6, 0], marks=pytest.mark.slow),
        (("replace", 3), [1, 0, 0]),  # between the two runs of a group
        pytest.param(("fsync", 3), [1, 0, 0], marks=pytest.mark.slow),  # between checkpoint.pt and best.pt
        (("step", 24 + 5), [12, 12, 4]),
    ],
    ids=str,
)
def test_killed_side_by_side(grid_in_process, undisturbed, tmp_path, moment, epochs):
    assert grid_in_process(tmp_path, die_at=moment) == -signal.SIGKILL
    assert epochs_in(tmp_path) == epochs
    assert grid_in_process(tmp_path) == 0
    results, files = found_in(tmp_path)
    assert results == undisturbed[0]
    assert same_bits(files, undisturbed[1])


def test_side_by_side_gives_the_numbers_of_each_run_alone(undisturbed):
    assert undisturbed[0] == [numbers(train(run)) for run in RUNS]


def test_runs_at_different_epochs_end_with_the_same_bits(grid_in_process, undisturbed, tmp_path):
    for number, step in ((0, 2 * 7 + 1), (1, 2 * 3 + 1)):
        assert grid_in_process(tmp_path / str(number), die_at=("step", step)) == -signal.SIGKILL
        (tmp_path / "grid").mkdir(exist_ok=True)
        (tmp_path / str(number) / RUNS[number].key).rename(tmp_path / "grid" / RUNS[number].key)
    assert epochs_in(tmp_path / "grid") == [7, 3, 0]
    assert grid_in_process(tmp_path / "grid") == 0
    results, files = found_in(tmp_path / "grid")
    assert results == undisturbed[0]
    assert same_bits(files, undisturbed[1])


class AheadEngine(FullGraphEngine):
    """Runs four epochs ahead of the session, as on a GPU."""

    def train_epoch(self, epoch, active):
        if not self._block:
            left = min(run.epochs for run, is_active in zip(self.runs, active, strict=True) if is_active) - epoch
            self._block = [{} for _ in range(min(4, left))]
        return super().train_epoch(epoch, active)


def train_ahead(runs, folder=None, on_epoch=None):
    return _finish(AheadEngine(runs, small_set(), CPU), small_set(), folder, on_epoch)


def test_engine_that_runs_ahead_gives_the_same():
    runs = [small_run(), small_run(epochs=6), small_run(lr=0.1, patience=2), small_run(lr=1e200, normalize=False)]
    ahead = train_ahead(runs)
    beside = _finish(FullGraphEngine(runs, small_set(), CPU), small_set(), None, None)
    assert [numbers(result) for result in ahead] == [numbers(result) for result in beside]
    assert [result.best_epoch for result in ahead] == [result.best_epoch for result in beside]
    assert [result.status for result in ahead] == ["finished"] * 3 + ["diverged"]
    assert [result.extra for result in ahead] == [result.extra for result in beside]


@in_turn(epochs_of=[(4, 5), (6, 5), (8, 9), (11, 9)], count=[1, 2])
def test_interrupted_while_the_engine_is_ahead(tmp_path, monkeypatch, epochs_of, count):
    stopped, goes_on = epochs_of
    monkeypatch.setattr(session, "_SHARE", 0)
    runs, epochs = RUNS[:count], []
    with pytest.raises(KeyboardInterrupt):
        train_ahead(runs, tmp_path, interrupted_at(stopped))
    resumed = train_ahead(runs, tmp_path, lambda report: epochs.append(report.epoch))
    assert epochs[0] == goes_on
    assert [numbers(result) for result in resumed] == [numbers(train(run)) for run in runs]


def test_run_that_joins_in_the_middle_of_a_block(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(RUNS[1], folder=tmp_path, on_epoch=interrupted_at(6))
    results = train_ahead(RUNS[:2], tmp_path)
    assert [numbers(result) for result in results] == [numbers(train(run)) for run in RUNS[:2]]


@pytest.mark.parametrize("make", [FullGraphEngine, AheadEngine])
def test_best_of_runs_that_stop_early_or_diverge(tmp_path, make, monkeypatch):
    dataset, options = small_set(192), {"dropout": 0.5, "lr": 0.3}
    runs = [
        small_run(model="dir-sage", normalize=False, fold=2, patience=2, **options),  # would get better after it stops
        small_run(normalize=False, **{**options, "lr": 0.1}),
        small_run(**options),
    ]
    engine = make(runs, dataset, CPU)
    step = engine._steps[1]

    def step_and_break():
        type(step).step(step)
        taken.append(1)
        if len(taken) == 8:
            with torch.no_grad():
                next(step.model.parameters()).fill_(float("nan"))

    taken = []
    monkeypatch.setattr(step, "step", step_and_break)
    monkeypatch.setattr(session, "_SHARE", 1e9)  # no checkpoint is due after the first
    results = _finish(engine, dataset, tmp_path, None)
    assert [result.status for result in results] == ["finished", "diverged", "finished"]
    assert results[1].extra["diverged_epoch"] == 9
    assert len(results[0].history["val"]) == 4
    for run, result in zip(runs, results, strict=True):
        assert result.best_epoch > 1
        data = NodeData.prepare(run, dataset, CPU)
        right = load_best(tmp_path, run, dataset)(data.x, data.adj).argmax(1) == data.y
        accuracy = 100 * right[data.masks[1, :, run.fold]].double().mean().item()
        assert accuracy == pytest.approx(max(result.history["val"]))
        assert parts_of(tmp_path, run, "best.pt")["epoch"] == result.best_epoch


def test_nothing_half_written_is_left(tmp_path):
    train(small_run(), folder=tmp_path)
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == ["best.pt", "checkpoint.pt", "lock"]


def test_few_checkpoints_in_little_time(tmp_path, monkeypatch):
    saved, real = [], RunFolder.save

    def save(folder, checkpoint):
        saved.append(checkpoint.epoch)
        real(folder, checkpoint)

    monkeypatch.setattr(RunFolder, "save", save)
    monkeypatch.setattr(session, "_SHARE", 1e9)
    train(small_run(), folder=tmp_path)
    assert saved == [1, 12]


def test_finished_run_is_not_trained_again(tmp_path):
    seen, whole = [], train_lockstep(RUNS, small_set(), accelerator="cpu", folder=tmp_path)
    again = train_lockstep(RUNS, small_set(), accelerator="cpu", folder=tmp_path, on_epoch=seen.append)
    assert seen == []
    assert [result.history for result in again] == [result.history for result in whole]


@pytest.fixture
def folder(tmp_path):
    train(small_run(), folder=tmp_path)
    return tmp_path


@pytest.mark.parametrize("length", [0, 100, -100])
def test_damaged_checkpoint_is_refused(folder, length):
    path = folder / small_run().key / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:length])
    for call in (train, lambda run, folder: train_lockstep([run], small_set(), folder=folder, accelerator="cpu")):
        with pytest.raises(CheckpointError, match=r"checkpoint\.pt: the file is damaged or not a checkpoint; remove"):
            call(small_run(), folder=folder)


def test_checkpoint_with_one_changed_number_is_refused(folder):
    path = folder / small_run().key / "checkpoint.pt"
    file = torch.load(path, weights_only=True)
    next(iter(file["parts"]["state"]["first"].values())).view(-1)[0] += 1e-6
    torch.save(file, path)
    with pytest.raises(CheckpointError, match="the file is damaged"):
        train(small_run(), folder=folder)


def test_checkpoint_of_other_data_is_refused(folder):
    with pytest.raises(CheckpointError, match="belongs to other data than this small"):
        train(small_run(), small_set(seed=1), folder=folder)
    with pytest.raises(CheckpointError, match="belongs to other data than this small"):
        load_best(folder, small_run(), small_set(seed=1))


def test_checkpoint_of_another_run_is_refused(folder):
    (folder / small_run().key).rename(folder / small_run(fold=1).key)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        train(small_run(fold=1), folder=folder)


def test_checkpoint_from_before_a_field_existed_is_taken(folder):
    path = folder / small_run().key / "checkpoint.pt"
    file = torch.load(path, weights_only=True)
    del file["run"]["input_dropout"]
    torch.save(file, path)
    seen = []
    train(small_run(), folder=folder, on_epoch=seen.append)
    assert seen == []
    (folder / small_run().key).rename(folder / small_run(input_dropout=True).key)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        train(small_run(input_dropout=True), folder=folder)


def test_checkpoint_executes_nothing(folder):
    class Trap:
        def __reduce__(self):
            return folder.joinpath("executed").touch, ()

    torch.save({"run": small_run().to_dict(), "trap": Trap()}, folder / small_run().key / "checkpoint.pt")
    with pytest.raises(CheckpointError, match="the file is damaged or not a checkpoint"):
        train(small_run(), folder=folder)
    assert not (folder / "executed").exists()
