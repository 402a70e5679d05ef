"""Ledgers of version 0.1."""

import json

import pytest

from graphprism.experiments.migrate import key_0_1, migrate, migrate_line
from graphprism.training import Run
from graphprism.training.run import ORIGIN, run_key

NODE = {
    "dataset": "cora", "model": "gcn", "split": "degree", "layers": 2, "width": 64, "alpha": 1.0, "jk": None,
    "normalize": False, "dropout": 0.6, "input_dropout": True, "share_init": False, "undirected": False,
    "self_loops": True, "row_normalise": True, "optimizer": "adam", "lr": 0.01, "weight_decay": 0.0, "epochs": 1000,
    "patience": 200, "fold": 0, "seed": 3, "precision": "float32",
}  # fmt: skip
LINE = {"key": key_0_1(NODE), "run": NODE, "status": "finished", "seconds": 1.5}


def test_migrate_line_of_a_run_on_nodes():
    new = migrate_line(LINE)
    run = Run.from_dict(new["run"])
    assert new["key"] == run.key
    assert (run.dataset, run.seed, run.patience, run.self_loops, run.dropout) == ("cora", 3, 200, True, 0.6)
    assert (run.batch_size, run.schedule, run.warmup, run.clip) == (None, "constant", 0, 0.0)
    assert {name: value for name, value in new.items() if name not in ("key", "run")} == {
        "status": "finished", "seconds": 1.5,
    }  # fmt: skip
    assert migrate_line(new) == new


def test_migrate_line_leaves_runs_on_graphs_as_they_are():
    run = {"dataset": "zinc12k", "model": "gcn", "batch_size": 32}
    line = {"key": run_key(run), "run": run}
    assert migrate_line(line) == line
    assert run_key(run) == Run.from_dict(run).key == run_key({**ORIGIN, **run})


def test_migrate_line_takes_defaults_of_0_1_for_fields_that_came_later():
    old = {name: value for name, value in NODE.items() if name != "input_dropout"}
    assert migrate_line({"key": key_0_1(old), "run": old})["run"]["input_dropout"] is False


def test_migrate_line_refuses_a_key_that_is_not_that_of_its_run():
    with pytest.raises(ValueError, match=f"must be {LINE['key']} by the rule of version 0.1, got 0123"):
        migrate_line({**LINE, "key": "0123"})


def test_migrate_rewrites_only_what_changes(tmp_path):
    path, graph = tmp_path / "ledger.jsonl", '{"key": "a", "run": {"batch_size": 32}}'
    path.write_text(f"{graph}\n{json.dumps(LINE)}\n")
    assert migrate(path) == 1
    first, second = path.read_text().splitlines()
    assert first == graph
    assert json.loads(second) == migrate_line(LINE)
    assert migrate(path) == 0
