from dataclasses import replace

from graphprism.datasets import molecules
from graphprism.training import Run, forget, train_lockstep

DATASET = molecules(24)
RUN = Run(layers=1, width=4, epochs=1, batch_size=16)
RUNS = [replace(RUN, seed=seed) for seed in range(3)]


def trained(folder, runs):
    """How many epochs are still to be trained."""
    seen = []
    train_lockstep(runs, DATASET, accelerator="cpu", folder=folder, on_epoch=seen.append)
    return len(seen)


def test_forget_makes_these_runs_start_anew_and_no_others(tmp_path):
    assert [trained(tmp_path, RUNS[:2]), trained(tmp_path, RUNS[2:])] == [2, 1]
    assert [trained(tmp_path, RUNS[:2]), trained(tmp_path, RUNS[2:])] == [0, 0]
    forget(tmp_path, [RUNS[1], replace(RUN, seed=99)])
    assert not (tmp_path / RUNS[1].key).exists()
    assert [trained(tmp_path, RUNS[:2]), trained(tmp_path, RUNS[2:])] == [1, 0]
    forget(tmp_path, [])
    assert trained(tmp_path, RUNS[:2]) == 0
