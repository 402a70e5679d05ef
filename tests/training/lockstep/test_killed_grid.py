import json
import signal
from dataclasses import asdict, replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.results import RunResult
from graphprism.training import CheckpointError, Run, load_best, train_lockstep
from tests.pairwise import quick
from tests.training.checkpoints import TIMES, parts_of, same_bits

# Dropout and batch norm on purpose: both have state besides the weights. Three runs, two at once: two groups.
RUN = Run(layers=2, width=6, epochs=4, warmup=1, norm="batch", dropout=0.3, batch_size=16)
RUNS = [replace(RUN, seed=seed, lr=1e-2) for seed in range(2)] + [replace(RUN, seed=5)]
DATASET = molecules(60)
JOB = {"runs": [asdict(run) for run in RUNS], "graphs": 60, "level": "graph"}


def without_times(result):
    history = {name: values for name, values in result.history.items() if name not in TIMES}
    return result.key, result.status, history, result.best_epoch, result.extra


def found_in(folder):
    """Results, and all tensors and numbers in the files but those of time."""
    results = [RunResult.from_json(text) for text in json.loads((folder / "results.json").read_text("utf-8"))]
    names = ("checkpoint.pt", "best.pt")
    files = {f"{run.key}/{name}": parts_of(folder, run, name) for run in RUNS for name in names}
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*.pt")} == files.keys()
    return [without_times(result) for result in results], files


def epochs_in(folder):
    """Epochs of the checkpoint of each run, 0 without one."""
    paths = [folder / run.key / "checkpoint.pt" for run in RUNS]
    return [len(torch.load(path, weights_only=True)["parts"]["step_ms"]) if path.exists() else 0 for path in paths]


@pytest.fixture(scope="module")
def undisturbed(grid_in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert grid_in_process({**JOB, "folder": str(folder)}) == 0
    return found_in(folder)


def test_grid_leaves_checkpoint_and_best_of_each_run(undisturbed):
    results, files = undisturbed
    assert [result[1] for result in results] == ["finished"] * 3
    assert len(files) == 6
    for run, result in zip(RUNS, results, strict=True):
        parts, best = files[f"{run.key}/checkpoint.pt"], files[f"{run.key}/best.pt"]
        assert parts["state"]["steps"] == 4 * 4
        assert parts["history"] == {name: values for name, values in result[2].items()}
        assert parts["best_epoch"] == best["epoch"] == result[3]
        assert same_bits(parts["state"]["best"], best["model"])


def end_with_the_same_bits(grid_in_process, undisturbed, folder):
    assert grid_in_process({**JOB, "folder": str(folder)}) == 0
    results, files = found_in(folder)
    assert results == undisturbed[0]
    assert same_bits(files, undisturbed[1])
    for run in RUNS:
        load_best(folder, run, DATASET)


# Four steps and two evaluations an epoch. A file is made of: sync of the new file, replace, sync of the folder. After
# each of four epochs every run of the first group writes a checkpoint and, where the epoch is its best, best.pt.
MOMENTS = [
    [("step", 11)],
    [("evaluation", 6)],
    [("replace", 9), ("replace", 2)],
    [("fsync", 2), ("step", 14), ("replace", 3), ("evaluation", 1), ("step", 2)],
]


# the last has a moment of every kind
@pytest.mark.parametrize(
    "moments", quick(MOMENTS, MOMENTS[-1]), ids=lambda moments: " ".join(f"{call}-{count}" for call, count in moments)
)
def test_killed_grid_ends_with_the_same_bits(grid_in_process, undisturbed, tmp_path, moments):
    for moment in moments:
        assert grid_in_process({**JOB, "folder": str(tmp_path), "die_at": moment}) == -signal.SIGKILL
    end_with_the_same_bits(grid_in_process, undisturbed, tmp_path)


def replaces_until(undisturbed, epoch):
    """Files that the first group writes before those of an epoch."""
    histories = [result[2]["val"] for result in undisturbed[0][:2]]
    bests = [val == min(vals[: at + 1]) for vals in histories for at, val in enumerate(vals[: epoch - 1])]
    return 2 * (epoch - 1) + sum(bests)


@pytest.mark.parametrize("epoch", quick([1, 3], 1))
def test_grid_killed_between_two_files_of_a_group_ends_with_the_same_bits(
    grid_in_process, undisturbed, tmp_path, epoch
):
    # the first run has written its checkpoint of the epoch, and is killed before its best.pt or the second's checkpoint
    moment = ("replace", replaces_until(undisturbed, epoch) + 2)
    assert grid_in_process({**JOB, "folder": str(tmp_path), "die_at": moment}) == -signal.SIGKILL
    assert epochs_in(tmp_path) == [epoch, epoch - 1, 0]
    end_with_the_same_bits(grid_in_process, undisturbed, tmp_path)


@pytest.mark.parametrize("epochs", quick([(1, 3), (0, 2), (4, 2)], (4, 2)), ids=str)
def test_runs_far_apart_end_with_the_same_bits(grid_in_process, undisturbed, tmp_path, epochs):
    for number, epoch in enumerate(epochs):
        folder = tmp_path / str(number)
        if epoch == 4:
            assert grid_in_process({**JOB, "folder": str(folder)}) == 0
        elif epoch:
            moment = ("step", 4 * epoch + 2)
            assert grid_in_process({**JOB, "folder": str(folder), "die_at": moment}) == -signal.SIGKILL
        if epoch:
            key = RUNS[number].key
            (tmp_path / "grid").mkdir(exist_ok=True)
            (folder / key).rename(tmp_path / "grid" / key)
    assert epochs_in(tmp_path / "grid")[:2] == list(epochs)
    # the third run is another group
    end_with_the_same_bits(grid_in_process, undisturbed, tmp_path / "grid")


def test_a_finished_grid_is_not_trained_again(tmp_path):
    runs, seen = RUNS[:2], []
    first = train_lockstep(runs, DATASET, accelerator="cpu", folder=tmp_path)
    again = train_lockstep(runs, DATASET, accelerator="cpu", folder=tmp_path, on_epoch=seen.append)
    assert seen == []
    for one, other in zip(first, again, strict=True):
        assert (one.history, one.best_epoch, one.step_ms) == (other.history, other.best_epoch, other.step_ms)


def test_checkpoint_is_that_of_the_run_whatever_is_beside_it(tmp_path):
    # without dropout, which is drawn for all runs of a group together
    runs, seen = [replace(run, dropout=0.0, precision="float64") for run in RUNS], []
    first = train_lockstep(runs[:2], DATASET, accelerator="cpu", folder=tmp_path)
    for chosen, epochs in ((runs[1:2], 0), ([runs[1], runs[0]], 0), ([runs[0], runs[2]], 4)):
        alone = train_lockstep(chosen, DATASET, accelerator="cpu")
        found = train_lockstep(chosen, DATASET, accelerator="cpu", folder=tmp_path, on_epoch=seen.append)
        assert len(seen) == epochs
        assert {report.run for report in seen} <= {runs[2]}
        for one, other in zip(found, alone, strict=True):
            assert (one.key, one.best_epoch) == (other.key, other.best_epoch)
            assert one.history["val"] == pytest.approx(other.history["val"], rel=1e-9)
            assert one.key not in (first[0].key, first[1].key) or one.history in (first[0].history, first[1].history)


def test_the_checkpoint_of_other_data_is_an_error(tmp_path):
    train_lockstep(RUNS[:1], DATASET, accelerator="cpu", folder=tmp_path)
    with pytest.raises(CheckpointError, match="belongs to other data"):
        train_lockstep(RUNS[:1], molecules(61), accelerator="cpu", folder=tmp_path)


def test_a_damaged_checkpoint_is_an_error(tmp_path):
    train_lockstep(RUNS[:1], DATASET, accelerator="cpu", folder=tmp_path)
    path = tmp_path / RUNS[0].key / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        train_lockstep(RUNS[:1], DATASET, accelerator="cpu", folder=tmp_path)
