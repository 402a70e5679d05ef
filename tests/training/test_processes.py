import json
from dataclasses import asdict, replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, train
from graphprism.training.processes import check_processes
from tests.pairwise import quick
from tests.training.checkpoints import parts_of, same_bits

# 85 training graphs in batches of 12: the last has one graph, which one of two processes goes without.
RUN = Run(layers=2, width=6, epochs=3, warmup=0, batch_size=12, precision="float64", pe=2, lr=0.01)
RUNS = {
    "mrs-gcn": RUN,
    "edge features and batch norm": replace(RUN, model="mrs-gated-gcn", batch_size=8, pe=0),
    "batch norm between layers": replace(RUN, model="sage", norm="batch", batch_size=16, jk="cat"),
}


@pytest.mark.parametrize("name", quick([*RUNS], "mrs-gcn", "edge features and batch norm"))
def test_two_processes_do_what_one_does(train_in_process, tmp_path, name):
    run = RUNS[name]
    for ranks in (1, 2):
        job = {"run": asdict(run), "graphs": 101, "folder": str(tmp_path / str(ranks)), "ranks": ranks}
        (tmp_path / str(ranks)).mkdir()
        assert train_in_process(job) == [0] * ranks
    one, two = (parts_of(tmp_path / str(ranks), run) for ranks in (1, 2))
    # a bias before batch norm has no gradient but rounding, which Adam scales up
    torch.testing.assert_close(two["state"]["model"], one["state"]["model"], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(two["history"], one["history"], rtol=1e-9, atol=1e-9)
    assert json.loads((tmp_path / "2" / "result.json").read_text())["hardware"]["count"] == 2


def test_two_processes_go_on_where_two_were_killed(train_in_process, tmp_path):
    run = replace(RUN, dropout=0.2)
    job = {"run": asdict(run), "graphs": 101, "ranks": 2}
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    codes = train_in_process({**job, "folder": str(tmp_path / "killed"), "die_at": ["step", 20]})
    assert all(codes)
    for folder in ("whole", "killed"):
        assert train_in_process({**job, "folder": str(tmp_path / folder)}) == [0, 0]
    assert same_bits(*(parts_of(tmp_path / folder, run) for folder in ("whole", "killed")))


def test_another_process_gives_the_same_bits(train_in_process, tmp_path):
    run = replace(RUN, precision="float32", dropout=0.2)
    assert train_in_process({"run": asdict(run), "graphs": 60, "folder": str(tmp_path)}) == [0]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for folder in ("a", "b"):
            train(run, molecules(60), folder=tmp_path / folder, accelerator="cpu")
    finally:
        torch.set_num_threads(threads)
    there = parts_of(tmp_path, run)
    assert same_bits(parts_of(tmp_path / "a", run), there)
    assert same_bits(parts_of(tmp_path / "b", run), there)


def test_what_several_processes_cannot_do_is_said():
    dataset = molecules(101)
    check_processes(replace(RUN, norm="layer"), dataset, 1)
    with pytest.raises(ValueError, match="`norm` must be None or \"batch\" on 2 devices, got 'layer'"):
        train(replace(RUN, norm="layer"), dataset, devices=2)
    with pytest.raises(ValueError, match="got 12 for 85 graphs, whose smallest batch has 1"):
        train(replace(RUN, norm="batch"), dataset, devices=2)
