import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphprism.training.node import train_node, train_nodes
from graphprism.training.node.node_checkpoint import load_node_checkpoint, save_node_checkpoint
from tests.training.node.node_sets import numbers, small_run, small_set

ROOT = Path(__file__).parents[3]
CPU = torch.device("cpu")
# Trains until it is killed in epoch 7 by no one's fault but its own: a real SIGKILL, after which nothing runs.
KILLED = """
import os, signal, sys
from pathlib import Path
from graphprism.training.node import train_nodes
from tests.training.node.node_sets import small_run, small_set

def kill(report):
    if report.epoch == 7:
        os.kill(os.getpid(), signal.SIGKILL)

runs = [small_run(dropout=0.5), small_run(dropout=0.5, fold=1)]
train_nodes(runs, small_set(), folder=Path(sys.argv[1]), accelerator="cpu", on_epoch=kill, checkpoint_seconds=0)
"""


def interrupted_at(epoch):
    def stop(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"model": "dir-sage", "patience": 3, "lr": 0.1}])
def test_a_run_that_was_interrupted_ends_as_if_it_was_not(tmp_path, options):
    run = small_run(**options)
    whole = train_node(run, small_set(), accelerator="cpu")
    with pytest.raises(KeyboardInterrupt):
        train_node(
            run, small_set(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0, on_epoch=interrupted_at(4)
        )
    epochs = []
    result = train_node(
        run,
        small_set(),
        folder=tmp_path,
        accelerator="cpu",
        checkpoint_seconds=0,
        on_epoch=lambda report: epochs.append(report.epoch),
    )
    assert epochs[0] == 4  # the checkpoint is that of epoch 3
    assert numbers(result) == numbers(whole)
    assert result.best_epoch == whole.best_epoch


def test_killed_side_by_side(tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    runs = [small_run(dropout=0.5), small_run(dropout=0.5, fold=1)]
    assert sorted(path.parent.name for path in tmp_path.glob("*/node.pt")) == sorted(run.key for run in runs)
    resumed = train_nodes(runs, small_set(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0)
    whole = train_nodes(runs, small_set(), accelerator="cpu")
    assert [numbers(result) for result in resumed] == [numbers(result) for result in whole]


def test_nothing_half_written_is_left(tmp_path):
    train_node(small_run(), small_set(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["node.pt"]


def test_few_checkpoints_in_little_time(tmp_path):
    train_node(small_run(), small_set(), folder=tmp_path, accelerator="cpu")
    assert not list(tmp_path.iterdir())


def test_a_damaged_checkpoint(tmp_path):
    run = small_run()
    train_node(run, small_set(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0)
    path = tmp_path / run.key / "node.pt"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"node\.pt is not a checkpoint that can be read; delete it"):
        train_node(run, small_set(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0)


def test_a_checkpoint_of_another_run(tmp_path):
    path = tmp_path / "node.pt"
    save_node_checkpoint(path, small_run(), {"history": {}})
    assert load_node_checkpoint(path, small_run(), CPU)["history"] == {}
    with pytest.raises(ValueError, match="belongs to another run"):
        load_node_checkpoint(path, small_run(fold=1), CPU)


def test_a_checkpoint_from_before_a_field_was_there(tmp_path):
    path = tmp_path / "node.pt"
    save_node_checkpoint(path, small_run(), {"history": {}})
    state = torch.load(path, weights_only=True)
    del state["run"]["input_dropout"]
    torch.save(state, path)
    assert load_node_checkpoint(path, small_run(), CPU)["history"] == {}
    with pytest.raises(ValueError, match="belongs to another run"):
        load_node_checkpoint(path, small_run(input_dropout=True), CPU)


def test_a_checkpoint_executes_nothing(tmp_path):
    class Trap:
        def __reduce__(self):
            return print, ("executed",)

    path = tmp_path / "node.pt"
    torch.save({"run": small_run().to_dict(), "trap": Trap()}, path)
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        load_node_checkpoint(path, small_run(), CPU)
