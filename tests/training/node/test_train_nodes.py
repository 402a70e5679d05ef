import sys

import pytest

from graphprism.training.node import train_node, train_nodes
from tests.training.node.node_sets import numbers, small_run, small_set

OPTIONS = [
    {},
    {"fold": 1},
    {"fold": 2, "seed": 5, "dropout": 0.5},
    {"lr": 0.1, "weight_decay": 0.01},
    {"patience": 2, "lr": 0.1},
    {"model": "dir-gcn", "layers": 3},
    {"model": "mlp", "jk": None},
    {"lr": 1e200, "normalize": False},
]


@pytest.fixture(scope="module")
def together():
    return train_nodes([small_run(**options) for options in OPTIONS], small_set(), accelerator="cpu")


@pytest.mark.parametrize("number", range(len(OPTIONS) - 1))
def test_each_gives_what_it_gives_alone(together, number):
    alone = train_node(small_run(**OPTIONS[number]), small_set(), accelerator="cpu")
    assert numbers(together[number]) == numbers(alone)
    assert together[number].best_epoch == alone.best_epoch
    assert together[number].extra == alone.extra


def test_results_stand_in_the_order_of_the_runs(together):
    assert [result.key for result in together] == [small_run(**options).key for options in OPTIONS]
    assert {result.engine for result in together} == {"lockstep"}
    assert {result.hardware["runs_at_once"] for result in together} == {len(OPTIONS)}


def test_one_that_ends_early_leaves_the_others_be(together):
    lengths = [len(result.history["val"]) for result in together]
    assert lengths[4] < 12
    assert lengths[-1] < 12
    assert set(lengths[:4]) == {12}
    assert [result.status for result in together] == ["finished"] * 7 + ["diverged"]


def test_no_runs_give_no_results():
    assert train_nodes([], small_set(), accelerator="cpu") == []


def test_more_runs_than_fit_at_once(monkeypatch):
    engine = sys.modules["graphprism.training.node.train_nodes"]
    runs = [small_run(epochs=2, seed=seed) for seed in range(5)]
    whole = train_nodes(runs, small_set(), accelerator="cpu")
    monkeypatch.setattr(engine, "_AT_ONCE", 2)
    waves = train_nodes(runs, small_set(), accelerator="cpu")
    assert [numbers(result) for result in waves] == [numbers(result) for result in whole]
    assert [result.hardware["runs_at_once"] for result in waves] == [2, 2, 2, 2, 1]
    # a device with room for one and a half
    left = iter([100.0, 60.0] * 5)
    monkeypatch.setattr(engine, "_free_bytes", lambda device: next(left))
    waves = train_nodes(runs, small_set(), accelerator="cpu")
    assert [result.hardware["runs_at_once"] for result in waves] == [1] * 5
