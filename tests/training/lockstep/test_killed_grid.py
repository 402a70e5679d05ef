import json
import signal
from dataclasses import asdict, replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.results import RunResult
from graphprism.training import CheckpointError, Run, load_best, train_lockstep
from tests.training.checkpoints import TIMES, same_bits

# Dropout and batch norm on purpose: both have state besides the weights. Three runs, two at once: two groups.
RUN = Run(layers=2, width=6, epochs=4, warmup=1, norm="batch", dropout=0.3, batch_size=16)
RUNS = [replace(RUN, seed=seed, lr=1e-2) for seed in range(2)] + [replace(RUN, seed=5)]
DATASET = molecules(60)
JOB = {"runs": [asdict(run) for run in RUNS], "graphs": 60}


def without_times(result):
    history = {name: values for name, values in result.history.items() if name not in TIMES}
    return result.key, result.status, history, result.best_epoch, result.extra


def found_in(folder):
    """Results, and all tensors and numbers in the files but those of time."""
    results = [RunResult.from_json(text) for text in json.loads((folder / "results.json").read_text("utf-8"))]
    files = {}
    for path in sorted(folder.glob("*/*.pt")):
        parts = torch.load(path, weights_only=True)["parts"]
        parts.pop("step_ms", None)
        for history in parts.get("history", []):
            history.pop("seconds")
        files[str(path.relative_to(folder))] = parts
    return [without_times(result) for result in results], files


@pytest.fixture(scope="module")
def undisturbed(grid_in_process, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert grid_in_process({**JOB, "folder": str(folder)}) == 0
    return found_in(folder)


def test_a_grid_leaves_a_checkpoint_for_each_group_and_the_best_of_each_run(undisturbed):
    results, files = undisturbed
    assert [result[1] for result in results] == ["finished"] * 3
    assert sum(name.endswith("checkpoint.pt") for name in files) == 2
    assert {f"{run.key}/best.pt" for run in RUNS} < files.keys()
    assert len(files) == 5


# Four steps and two evaluations an epoch. A file is made of: sync of the new file, replace, sync of the folder. The
# first group writes two files after each of four epochs, then the best of two runs.
MOMENTS = [
    [("step", 3)],
    [("step", 11)],
    [("evaluation", 6)],
    [("replace", 4)],
    [("replace", 9), ("replace", 2)],  # all epochs are kept, the best networks are not, or one of them is not
    [("replace", 13), ("step", 2), ("replace", 1)],
    [("fsync", 2), ("step", 14), ("replace", 3), ("evaluation", 1), ("step", 2)],
]


@pytest.mark.parametrize("moments", MOMENTS, ids=lambda moments: " ".join(f"{call}-{count}" for call, count in moments))
def test_a_killed_grid_ends_with_the_same_bits(grid_in_process, undisturbed, tmp_path, moments):
    job = {**JOB, "folder": str(tmp_path)}
    for moment in moments:
        assert grid_in_process({**job, "die_at": moment}) == -signal.SIGKILL
    assert grid_in_process(job) == 0
    results, files = found_in(tmp_path)
    assert results == undisturbed[0]
    assert same_bits(files, undisturbed[1])
    for run in RUNS:
        load_best(tmp_path, run, DATASET)


def test_a_finished_grid_is_not_trained_again(tmp_path):
    runs, seen = RUNS[:2], []
    first = train_lockstep(runs, DATASET, device="cpu", folder=tmp_path)
    again = train_lockstep(runs, DATASET, device="cpu", folder=tmp_path, on_epoch=seen.append)
    assert seen == []
    for one, other in zip(first, again, strict=True):
        assert (one.history, one.best_epoch, one.step_ms) == (other.history, other.best_epoch, other.step_ms)


def test_the_checkpoint_of_other_runs_is_not_taken(tmp_path):
    train_lockstep(RUNS[:2], DATASET, device="cpu", folder=tmp_path)
    for runs in (RUNS[1:2], [RUNS[1], RUNS[0]], [RUNS[0], RUNS[2]]):
        alone = train_lockstep(runs, DATASET, device="cpu")
        found = train_lockstep(runs, DATASET, device="cpu", folder=tmp_path)
        assert list(map(without_times, found)) == list(map(without_times, alone))


def test_the_checkpoint_of_other_data_is_an_error(tmp_path):
    train_lockstep(RUNS[:1], DATASET, device="cpu", folder=tmp_path)
    with pytest.raises(CheckpointError, match="belongs to other data"):
        train_lockstep(RUNS[:1], molecules(61), device="cpu", folder=tmp_path)


def test_a_damaged_checkpoint_is_an_error(tmp_path):
    train_lockstep(RUNS[:1], DATASET, device="cpu", folder=tmp_path)
    (path,) = tmp_path.glob("lockstep-*/checkpoint.pt")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        train_lockstep(RUNS[:1], DATASET, device="cpu", folder=tmp_path)
