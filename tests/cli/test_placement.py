import os
from pathlib import Path

import pytest
import torch

from graphprism import cli
from graphprism.cli.run_training import Placement, placement_of
from graphprism.datasets import molecules, save
from graphprism.experiments import Ledger

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2]), "OMP_NUM_THREADS": "1"}


def placement(**given):
    return placement_of({"accelerator": "cpu", "engine": "auto", "devices": 1, "nodes": 1, **given})


def test_cpu_has_no_lockstep():
    assert placement() == Placement("cpu", 1, 1, "eager")
    assert placement(engine="eager", devices=2) == Placement("cpu", 2, 1, "eager")


@pytest.mark.gpu
def test_gpu_leaves_the_choice_to_the_engine():
    assert placement(accelerator="auto").engine == "auto"
    assert placement(accelerator="cuda", engine="lockstep").engine == "lockstep"
    assert placement(accelerator="cuda", engine="eager").engine == "eager"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"engine": "lockstep", "accelerator": "auto", "nodes": 2},
            "`engine` must be auto or eager unless all runs share one CUDA",
        ),
        ({"accelerator": "cuda", "devices": torch.cuda.device_count() + 2}, "are asked for"),
        ({"accelerator": "cuda", "devices": torch.cuda.device_count() + 1}, "`accelerator` must be auto or cpu"),
    ],
)
def test_placement_that_the_machine_does_not_have(given, words):
    with pytest.raises(ValueError, match=words):
        placement(**given)


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"])
def test_first_process(monkeypatch, name):
    shared = Placement("cpu", 2, 1, "eager")
    monkeypatch.setenv(name, "0")
    assert shared.is_rank0
    monkeypatch.setenv(name, "1")
    assert not shared.is_rank0
    assert Placement("cpu", 1, 1, "eager").is_rank0


@pytest.mark.slow
def test_two_processes_write_and_print_once(warm_python, tmp_path):
    save(molecules(120), tmp_path / "small.npz")
    words = ["--dataset", "small", "--data", tmp_path, "--accelerator", "cpu", "--devices", "2", "--model", "gcn,sage"]
    size = ["--width", "8", "--layers", "1", "--epochs", "2"]
    command = ["-m", "graphprism", "train", *words, *size, "--out", tmp_path / "out"]
    done = warm_python.run("-W", "ignore", *command, PYTHONWARNINGS="ignore")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("small: 100 / 10 / 10 graphs") == done.stdout.count("The results are in") == 1
    results = Ledger(tmp_path / "out" / "ledger.jsonl").read()
    assert [(result.run["model"], result.hardware["count"]) for result in results] == [("gcn", 2), ("sage", 2)]
