from dataclasses import replace

import pytest
import torch

import graphprism.training
from graphprism.datasets import load
from graphprism.experiments import Ledger, trainer_for
from graphprism.experiments.runner import finished_results
from graphprism.training import Run
from graphprism.training.train import lockstep_key
from tests.experiments.tiny_table import TINY, save_tiny
from tests.report.samples import run as sample
from tests.training.node_sets import small_run, small_set

RUNS = [Run(seed=0), Run(seed=1), Run(lr=0.5), Run(weight_decay=0.5), Run(dropout=0.5), Run(layers=2), Run(pe=2)]

NODES = Run("chameleon", "mrs-dir-gcn", width=8, dropout=0.2, batch_size=None)


@pytest.fixture
def with_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_trainer_for_chooses_lockstep_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert trainer_for(RUNS, "auto").engine == trainer_for(RUNS, "eager").engine == "eager"
    with pytest.raises(ValueError, match="lockstep needs a CUDA device"):
        trainer_for(RUNS, "lockstep")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert trainer_for(RUNS, "auto").engine == trainer_for(RUNS, "lockstep").engine == "lockstep"
    assert trainer_for(RUNS, "eager").engine == trainer_for(RUNS, "auto", "cpu").engine == "eager"


@pytest.mark.usefixtures("with_gpu")
def test_trainer_for_groups_runs_as_lockstep_does():
    groups = trainer_for(RUNS, "auto").groups(RUNS)
    assert [len(group) for group in groups] == [4, 1, 1, 1]
    assert [len({lockstep_key(run) for run in group}) for group in groups] == [1, 1, 1, 1]
    assert trainer_for(RUNS, "eager").groups(RUNS) == [[run] for run in RUNS]


@pytest.mark.parametrize(("engine", "sizes"), [("auto", [5, 1]), ("eager", [1] * 6)])
def test_trainer_for_groups_runs_on_nodes(engine, sizes):
    runs = [
        NODES,
        replace(NODES, fold=1),
        replace(NODES, seed=1),
        replace(NODES, lr=0.1),
        replace(NODES, dropout=0.0),
        replace(NODES, layers=2),
    ]
    assert [len(group) for group in trainer_for(runs, engine).groups(runs)] == sizes


@pytest.mark.usefixtures("with_gpu")
def test_trainer_for_passes_a_group_to_lockstep(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(graphprism.training, "train_lockstep", lambda *args, **more: calls.append((args, more)) or [])
    trainer_for(RUNS, "auto").train(RUNS[:2], None, tmp_path, print)
    assert calls == [((RUNS[:2], None), {"folder": tmp_path, "accelerator": "auto", "on_epoch": print})]


def test_trainer_returns_diverged_runs_as_results(tmp_path):
    run = Run("tiny", "gcn", layers=2, width=8, epochs=3, warmup=0, lr=1e30, clip=0)
    dataset = load("tiny", save_tiny(tmp_path))
    (result,) = trainer_for([run], "eager", "cpu").train([run], dataset, tmp_path, lambda report: None)
    assert (result.key, result.status) == (run.key, "diverged")


@pytest.mark.parametrize("engine", ["auto", "eager"])
def test_trainer_trains_runs_on_nodes(tmp_path, engine):
    epochs = []
    runs = [small_run(epochs=2), small_run(epochs=2, seed=1)]
    results = trainer_for(runs, engine).train(runs, small_set(), tmp_path, epochs.append)
    assert [result.key for result in results] == [run.key for run in runs]
    assert len(epochs) == 4


def test_table_repeats_folds_before_seeds():
    spec = replace(TINY, folds={"cora": 2})
    nodes = replace(NODES, dataset="cora")
    assert [(run.fold, run.seed) for run in (spec.repeated(nodes, number) for number in range(3))] == [
        (0, 0), (1, 0), (0, 1)
    ]  # fmt: skip
    assert spec.repeated(replace(NODES, dataset="pubmed"), 2) == replace(NODES, dataset="pubmed", seed=2)


def test_results_on_other_data_do_not_count(tmp_path):
    ledger, runs = Ledger(tmp_path / "ledger.jsonl"), [replace(RUNS[0], seed=seed) for seed in range(3)]
    for run, data in zip(runs, ["new", "old", None], strict=True):
        ledger.append(replace(sample(), key=run.key, run=run.to_dict(), data=data))
    assert list(finished_results(runs, {"molecules": "new"}, ledger)) == [runs[0].key, runs[2].key]


def test_results_on_other_data_hide_none_on_the_present(tmp_path):
    ledger, run = Ledger(tmp_path / "ledger.jsonl"), RUNS[0]
    for data, status in (("new", "diverged"), ("old", "finished")):
        ledger.append(replace(sample(), key=run.key, run=run.to_dict(), data=data, status=status))
    assert finished_results([run], {"molecules": "new"}, ledger)[run.key].status == "diverged"
