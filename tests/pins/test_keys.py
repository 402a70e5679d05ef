"""Keys of runs: what stored results are found by."""

import hashlib
import json
from dataclasses import replace

import pytest

from graphprism.experiments.migrate import migrate_line
from graphprism.training import Run
from tests.pins.pinned import as_json, pinned

# The values of version 0.1, written out: a default that changes later must not change what an old key says.
DEFAULTS = {
    "graph": {
        "dataset": "molecules", "model": "mrs-gcn", "split": "degree", "layers": 8, "width": None, "budget": 500_000,
        "residual": False, "jk": None, "pe": 0, "norm": None, "dropout": 0.0, "optimizer": "adamw", "lr": 1e-3,
        "weight_decay": 0.0, "clip": 1.0, "schedule": "cosine", "warmup": 5, "batch_size": 32, "epochs": 400,
        "seed": 0, "precision": "float32",
    },
    "node": {
        "dataset": "chameleon", "model": "mrs-dir-gcn", "split": "degree", "layers": 6, "width": 128, "alpha": 1.0,
        "jk": "max", "normalize": True, "dropout": 0.2, "input_dropout": False, "share_init": True,
        "undirected": False, "self_loops": False, "row_normalise": True, "optimizer": "adam", "lr": 0.005,
        "weight_decay": 0.0, "epochs": 10_000, "patience": 400, "fold": 0, "seed": 0, "precision": "float32",
    },
}  # fmt: skip
RUNS = {
    "graph": [
        {},
        {"dataset": "zinc12k", "model": "gcn"},
        {"dataset": "zinc12k", "lr": 0.0003, "seed": 2},
        {"dataset": "zinc12k", "split": "degree,ppr", "layers": 16, "residual": True, "jk": "cat", "pe": 8},
        {"dataset": "zinc", "model": "mrs-gated-gcn-9", "epochs": 500, "lr": 0.0003},
        {"dataset": "peptides-func", "model": "gin", "batch_size": 200, "epochs": 250, "width": 64},
        {"norm": "batch", "dropout": 0.5, "optimizer": "adam", "schedule": "constant", "warmup": 0, "clip": 0.0},
        {"precision": "bf16", "weight_decay": 0.1, "budget": 100_000},
    ],
    "node": [
        {},
        {"dataset": "squirrel", "model": "dir-gcn", "layers": 4, "dropout": 0.0, "lr": 0.01, "fold": 3},
        {"model": "gcn", "undirected": True, "self_loops": True, "seed": 1},
        {"dataset": "cora", "model": "gcn", "width": 64, "jk": None, "normalize": False, "input_dropout": True,
         "share_init": False, "self_loops": True, "patience": 200, "epochs": 1000},
        {"dataset": "snap-patents", "width": 32, "alpha": 0.5, "lr": 0.01, "row_normalise": False},
        {"precision": "float64", "weight_decay": 0.0005, "split": "ppr"},
    ],
}  # fmt: skip
CASES = [(level, number) for level, changes in RUNS.items() for number in range(len(changes))]


def make_run(level, values):
    """The run of today that a run of version 0.1 has become."""
    if level == "graph":
        return Run.from_dict(values)
    full = {**DEFAULTS["node"], **values}
    return Run.from_dict(migrate_line({"key": key_0_1(level, full), "run": full})["run"])


def key_0_1(level, values):
    """The rule of version 0.1: a hash of the fields that differ from their default; those of nodes are marked."""
    told = {name: value for name, value in values.items() if value != DEFAULTS[level][name]}
    content = {"node": told} if level == "node" else told
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def measure():
    """All fields of each run of version 0.1 beside its key, and the keys that they have today."""
    full = {level: [{**DEFAULTS[level], **values} for values in changes] for level, changes in RUNS.items()}
    old = {level: [{"run": run, "key": key_0_1(level, run)} for run in runs] for level, runs in full.items()}
    return {**old, "today": {level: [make_run(level, run).key for run in runs] for level, runs in full.items()}}


@pytest.mark.parametrize(("level", "number"), CASES)
def test_key_of_today_is_the_same(level, number):
    # all fields written out, so that the key does not depend on the defaults of today
    assert make_run(level, pinned("keys")[level][number]["run"]).key == pinned("keys")["today"][level][number]


@pytest.mark.parametrize("number", range(len(RUNS["graph"])))
def test_keys_of_runs_on_graphs_have_not_changed_since_0_1(number):
    assert pinned("keys")["today"]["graph"][number] == pinned("keys")["graph"][number]["key"]


@pytest.mark.parametrize(("level", "number"), CASES)
def test_key_follows_the_rule_of_0_1(level, number):
    expected, values = pinned("keys")[level][number], {**DEFAULTS[level], **RUNS[level][number]}
    assert as_json(values) == expected["run"]
    assert key_0_1(level, values) == expected["key"]


@pytest.mark.parametrize("level", RUNS)
def test_every_field_but_a_default_counts(level):
    run = make_run(level, DEFAULTS[level])
    other = {"dataset": "x", "model": "gcn", "split": "ppr", "jk": "cat", "schedule": "constant",
             "norm": "batch", "width": 3, "precision": "bf16",
             "optimizer": "adam" if level == "graph" else "adamw"}  # fmt: skip
    keys = {run.key}
    fields = list(DEFAULTS[level])
    for name in fields:
        value = DEFAULTS[level][name]
        changed = not value if isinstance(value, bool) else other.get(name, value / 2 + 1 / 4 if type(value) is float
                                                                     else 3)  # fmt: skip
        change = {"start": "independent"} if name == "share_init" else {name: changed}
        keys.add(replace(run, **change).key)
    assert len(keys) == len(fields) + 1
