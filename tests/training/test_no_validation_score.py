"""Runs whose metric is not defined on the validation fold, such as AUROC of a single row."""

import math
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import save
from graphprism.training import Run, train, train_lockstep
from tests.training.test_targets import graphs, ring

SMALL = {"layers": 1, "width": 4, "warmup": 0, "epochs": 2}
MESSAGE = (
    r"^no epoch of {} has a validation score: auroc is not defined on the validation fold, so that no best\.pt is "
    r"written; choose another metric or a larger validation fold$"
)


def one_validation_node():
    dataset = ring("binary", 20)
    mask = torch.zeros_like(dataset.val_mask)
    mask[dataset.val_mask[:, 0].nonzero()[0]] = True
    return replace(dataset, val_mask=mask)


def test_run_without_a_validation_score_warns(tmp_path):
    run = Run(batch_size=None, **SMALL)
    with pytest.warns(UserWarning, match=MESSAGE.format(run.title)):
        result = train(run, one_validation_node(), accelerator="cpu", folder=tmp_path)
    assert (result.status, result.best_epoch) == ("finished", None)
    assert [file.name for file in sorted((tmp_path / run.key).iterdir())] == ["checkpoint.pt", "lock"]


def test_runs_in_lockstep_without_a_validation_score_warn_once():
    dataset = graphs("binary")
    split = dataset.split.clone()
    split[dataset.subset("val")[1:]] = 2
    runs = [Run(batch_size=16, seed=seed, **SMALL) for seed in (0, 1)]
    with pytest.warns(UserWarning, match=MESSAGE.format(f"{runs[0].title} and 1 more")) as caught:
        train_lockstep(runs, replace(dataset, split=split), accelerator="cpu")
    assert len(caught) == 1


@pytest.mark.filterwarnings("default")
def test_command_prints_the_sentence_alone(tmp_path):
    save(one_validation_node(), tmp_path / "few.npz")
    words = ("train", "--dataset", "few", "--layers", "1", "--width", "4", "--epochs", "2", "--accelerator", "cpu")
    done = CliRunner().invoke(app, [*words, "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    told = [line for line in done.stderr.splitlines() if "warn" in line]
    titles = "gcn", "mrs-gcn by degree"
    assert [line.partition(",")[0] for line in told] == [f"warning: no epoch of {title}" for title in titles]


@pytest.mark.parametrize("task", ["multiclass", "binary", "regression"])
def test_run_without_training_nodes_is_refused(task):
    dataset = ring(task, 20)
    empty = replace(dataset, train_mask=torch.zeros_like(dataset.train_mask))
    with pytest.raises(ValueError, match=r"`train_mask` must have nodes, got none in fold 0 of data"):
        train(Run(batch_size=None, **SMALL), empty, accelerator="cpu")


def test_fold_without_nodes_has_no_accuracy(tmp_path):
    dataset, run = ring("multiclass", 20), Run(batch_size=None, **SMALL)
    without = replace(dataset, test_mask=torch.zeros_like(dataset.test_mask))
    result = train(run, without, accelerator="cpu")
    assert math.isnan(result.at_best("test"))
    assert not math.isnan(result.at_best("val"))
    without = replace(dataset, val_mask=torch.zeros_like(dataset.val_mask))
    with pytest.warns(UserWarning, match="accuracy is not defined on the validation fold, so that no best"):
        result = train(run, without, accelerator="cpu", folder=tmp_path)
    assert (result.best_epoch, math.isnan(result.history["val"][-1])) == (None, True)
    assert not (tmp_path / run.key / "best.pt").exists()
