"""Real processes on nodes with sampled neighbours: the division of a batch changes nothing."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from graphprism.training import Run
from tests.training.checkpoints import parts_of
from tests.training.node_sets import small_run

# 48 training nodes of 96 in batches of 13: the last has nine, or three for each of three processes
SHARED = small_run(
    model="mrs-gcn", dropout=0.0, epochs=3, neighbors=3, batch_size=13, optimizer="adamw", clip=1.0, schedule="cosine"
)
RUNS = {
    "shared": SHARED,
    "directed": replace(SHARED, model="mrs-dir-sage", alpha=0.5, epochs=2),
    "synced norms": replace(SHARED, model="sage", norm="batch", jk="cat", normalize=False, neighbors=2, epochs=2),
}
MOLECULES = Run(layers=2, width=6, epochs=3, warmup=0, batch_size=12, precision="float64", lr=0.01)


def history(train_in_process, folder, run, ranks, **data):
    """The numbers of a run that so many processes train."""
    folder.mkdir(exist_ok=True)
    job = {"run": asdict(run), "folder": str(folder), "ranks": ranks, **(data or {"nodes": 96})}
    assert train_in_process(job) == [0] * ranks
    assert json.loads((folder / "result.json").read_text())["hardware"]["count"] == ranks
    return parts_of(folder, run)["history"]


def assert_same_curves(found, expected, evaluated=1e-10):
    bounds = {"train_loss": 1e-10, "train": 1e-10, "lr": 1e-10, "val": evaluated, "test": evaluated}
    for name, bound in bounds.items():
        torch.testing.assert_close(found[name], expected[name], rtol=bound, atol=bound)


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_sample_and_train_as_one_does(train_in_process, tmp_path, name):
    one, two = (history(train_in_process, tmp_path / str(ranks), RUNS[name], ranks) for ranks in (1, 2))
    assert_same_curves(two, one)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_four_processes_sample_and_train_as_one_does(train_in_process, tmp_path, name):
    one, four = (history(train_in_process, tmp_path / str(ranks), RUNS[name], ranks) for ranks in (1, 4))
    assert_same_curves(four, one)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"model": "sage", "norm": "batch", "batch_size": 16}], ids=["plain", "norm"])
def test_four_processes_train_on_graphs_as_one_does(train_in_process, tmp_path, options):
    run = replace(MOLECULES, **options)
    one, four = (history(train_in_process, tmp_path / str(ranks), run, ranks, graphs=101) for ranks in (1, 4))
    # a bias before batch norm has no gradient but rounding, which Adam scales up; running means are behind it
    assert_same_curves(four, one, 1e-6 if run.norm else 1e-10)


def test_killed_rank_ends_all_and_the_run_goes_on_with_another_number(train_in_process, tmp_path):
    whole = history(train_in_process, tmp_path / "whole", SHARED, 1)
    folder = tmp_path / "killed"
    folder.mkdir()
    # four steps an epoch: the sixth is in the second epoch
    job = {"run": asdict(SHARED), "nodes": 96, "folder": str(folder), "die_at": ["step", 6], "victim": 1}
    codes = train_in_process({**job, "ranks": 2})
    assert codes == [1, -9]
    assert len(parts_of(folder, SHARED)["history"]["val"]) == 1
    assert (folder / "lost-0").read_text() == (
        "another process of mrs-gcn by degree, 2 layers, jk max, lr 0.01, 3 neighbours, fold 0, seed 0, small has "
        f"ended; start again to go on from {folder / SHARED.key / 'checkpoint.pt'}, on any number of devices"
    )
    assert_same_curves(history(train_in_process, folder, SHARED, 1), whole)


@pytest.mark.slow
def test_killed_rank_ends_four_and_two_go_on(train_in_process, tmp_path):
    whole = history(train_in_process, tmp_path / "whole", SHARED, 1)
    folder = tmp_path / "killed"
    folder.mkdir()
    job = {"run": asdict(SHARED), "nodes": 96, "folder": str(folder), "die_at": ["step", 6], "victim": 2}
    assert train_in_process({**job, "ranks": 4}) == [1, 1, -9, 1]
    assert len({(folder / f"lost-{rank}").read_text() for rank in (0, 1, 3)}) == 1
    assert_same_curves(history(train_in_process, folder, SHARED, 2), whole)
