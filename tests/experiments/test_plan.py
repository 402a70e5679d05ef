from dataclasses import replace

import pytest
import torch

import graphprism.training
from graphprism.experiments import Settings
from graphprism.experiments.plan import groups_of, lockstep_for, plan, runs_to_do, trainer_of_many
from graphprism.training import NodeRun, Run
from tests.experiments.tiny_table import TINY


def test_rows_and_columns_choose_what_runs():
    def models(**settings):
        return sorted({run.model for run in runs_to_do(plan(TINY, Settings(**settings)))})

    assert models() == ["gcn", "mrs-gcn"]
    assert models(rows=("MRS-GCN",)) == ["mrs-gcn"]
    assert models(rows=("Others",)) == []
    assert models(columns=("Train",)) == ["gcn", "mrs-gcn"]


def test_cells_share_runs_and_seeds_count():
    assert [run.seed for run in runs_to_do(plan(TINY, Settings(seeds=2)))] == [0, 1, 0, 1]
    assert len(runs_to_do(plan(TINY, Settings(seeds=2, grid="full")))) == 16


def test_published_configurations_come_first():
    runs = runs_to_do(plan(TINY, Settings(seeds=1, grid="full")))
    assert [(run.model, run.lr, run.layers) for run in runs[:3]] == [
        ("gcn", 0.01, 1),
        ("mrs-gcn", 0.01, 1),
        ("gcn", 0.01, 2),
    ]


def test_epochs_make_other_runs():
    few, all_of_them = (runs_to_do(plan(TINY, Settings(epochs=epochs))) for epochs in (2, None))
    assert {run.epochs for run in few} == {2}
    assert not {run.key for run in few} & {run.key for run in all_of_them}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 0}, "`seeds` must be at least 1, got 0"),
        ({"epochs": 0}, "`epochs` must be at least 1, got 0"),
        ({"grid": "some"}, r"`grid` must be one of \['best', 'full'\], got 'some'"),
        ({"engine": "warp"}, "`engine` must be one of"),
    ],
)
def test_wrong_settings_are_errors(settings, words):
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


@pytest.mark.parametrize("name", ["rows", "columns"])
def test_unknown_names_are_errors_that_list_the_known(name):
    with pytest.raises(ValueError, match=rf"`{name}` must be among \w+, .*, got nix"):
        plan(TINY, Settings(**{name: ("nix",)}))


def test_groups_of_lockstep_share_all_but_rates_and_seed():
    runs = [Run(seed=0), Run(seed=1), Run(lr=0.5), Run(dropout=0.5), Run(weight_decay=0.5), Run(layers=2), Run(pe=2)]
    assert [len(group) for group in groups_of(runs, TINY.own)] == [5, 1, 1]


def test_engines(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert lockstep_for("auto") is lockstep_for("eager") is None
    with pytest.raises(ValueError, match="lockstep needs a CUDA device"):
        lockstep_for("lockstep")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(graphprism.training, "train_lockstep", len, raising=False)
    assert lockstep_for("auto") is lockstep_for("lockstep") is len
    assert lockstep_for("eager") is None


def test_many_at_once_by_the_table_or_in_lockstep(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(graphprism.training, "train_lockstep", len, raising=False)
    by_table = replace(TINY, train_many=max)
    nodes = [NodeRun(fold=1)]
    assert trainer_of_many(TINY, [Run()], "auto") is len
    assert trainer_of_many(TINY, [Run()], "eager") is None
    assert trainer_of_many(TINY, nodes, "auto") is None
    assert trainer_of_many(by_table, nodes, "auto") is max
    assert trainer_of_many(by_table, nodes, "eager") is None
