"""Real processes on graphs, and on nodes and links with sampled neighbours: the division of a batch changes nothing."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from graphprism.training import Run
from tests.pairwise import quick
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
# 292 training edges and as many pairs without one in batches of 83: the last has three pairs
LINKS = replace(SHARED, batch_size=83, jk="cat", normalize=False)
LINK_RUNS = {
    "shared": LINKS,
    "directed": replace(LINKS, model="mrs-dir-sage", alpha=0.5, epochs=2),
    "synced norms": replace(LINKS, model="sage", norm="batch", neighbors=2, epochs=2, batch_size=96),
}
# torchmetrics computes areas in float32
IN_FLOAT32 = {"evaluated": 1e-6, "train": 1e-6}
# what has a target, its run, and the step of the second epoch in which a process is killed
LEVELS = {
    "nodes": ({"nodes": 96}, SHARED, 6),
    "links": ({"links": 96}, LINKS, 11),
    "graphs": ({"graphs": 101}, MOLECULES, 10),
}


def history(train_in_process, folder, run, ranks, **data):
    """The numbers of a run that so many processes train."""
    folder.mkdir(exist_ok=True)
    job = {"run": asdict(run), "folder": str(folder), "ranks": ranks, **(data or {"nodes": 96})}
    assert train_in_process(job) == [0] * ranks
    assert json.loads((folder / "result.json").read_text())["hardware"]["count"] == ranks
    return parts_of(folder, run)["history"]


def assert_same_curves(found, expected, evaluated=1e-10, train=1e-10):
    bounds = {"train_loss": 1e-10, "train": train, "lr": 1e-10, "val": evaluated, "test": evaluated}
    for name, bound in bounds.items():
        torch.testing.assert_close(found[name], expected[name], rtol=bound, atol=bound)


@pytest.mark.parametrize("name", quick([*RUNS], "directed", "synced norms"))
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


@pytest.mark.parametrize("name", quick([*LINK_RUNS], "directed"))
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_sample_and_train_links_as_one_does(train_in_process, tmp_path, name, ranks):
    run = LINK_RUNS[name]
    one, several = (history(train_in_process, tmp_path / str(each), run, each, links=96) for each in (1, ranks))
    assert_same_curves(several, one, **IN_FLOAT32)
    assert one["train_loss"][-1] < one["train_loss"][0]


# "graphs" are killed in test_processes.py
@pytest.mark.parametrize("level", quick([*LEVELS], "links"))
def test_killed_rank_ends_all_and_the_run_goes_on_with_another_number(train_in_process, tmp_path, level):
    data, run, step = LEVELS[level]
    whole = history(train_in_process, tmp_path / "whole", run, 1, **data)
    folder = tmp_path / "killed"
    folder.mkdir()
    job = {"run": asdict(run), **data, "folder": str(folder), "die_at": ["step", step], "victim": 1}
    assert train_in_process({**job, "ranks": 2}) == [1, -9]
    assert len(parts_of(folder, run)["history"]["val"]) == 1
    assert (folder / "lost-0").read_text() == (
        f"another process of {run.title} has ended; start again to go on from "
        f"{folder / run.key / 'checkpoint.pt'}, on any number of devices"
    )
    assert_same_curves(
        history(train_in_process, folder, run, 1, **data), whole, **(IN_FLOAT32 if level == "links" else {})
    )


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_killed_rank_ends_four_and_two_go_on(train_in_process, tmp_path, level):
    data, run, step = LEVELS[level]
    whole = history(train_in_process, tmp_path / "whole", run, 1, **data)
    folder = tmp_path / "killed"
    folder.mkdir()
    job = {"run": asdict(run), **data, "folder": str(folder), "die_at": ["step", step], "victim": 2}
    assert train_in_process({**job, "ranks": 4}) == [1, 1, -9, 1]
    assert len({(folder / f"lost-{rank}").read_text() for rank in (0, 1, 3)}) == 1
    assert_same_curves(
        history(train_in_process, folder, run, 2, **data), whole, **(IN_FLOAT32 if level == "links" else {})
    )
