"""Short runs of every engine: the same histories and the same weights."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, load_best, train, train_lockstep
from tests.pins.node_set import node_set
from tests.pins.pinned import as_json, differences, pinned

COLUMNS = ("lr", "train_loss", "train", "val", "test")
# Bits may differ between CPUs and versions of torch, which add up in another order; rounding grows with each step.
REL = {"float64": 1e-9, "float32": 1e-4}
# The gradient of a bias before a batch norm is nothing but rounding: squares of such biases were 1e-21 and 9e-22.
FLOOR = 1e-15

# Every field is written out: a default that changes is no change of these runs.
GRAPHS = Run(
    dataset="molecules", model="gcn", split="degree", layers=2, width=6, budget=500_000, residual=False, jk=None, pe=0,
    norm=None, dropout=0.0, optimizer="adamw", lr=0.005, weight_decay=0.0, clip=1.0, schedule="cosine", warmup=1,
    batch_size=8, epochs=3, seed=0, precision="float64", start="independent",
)  # fmt: skip
GRAPH_RUNS = {
    "gcn": GRAPHS,
    "gcn, float32": replace(GRAPHS, precision="float32"),
    "mrs-gcn": replace(GRAPHS, model="mrs-gcn", weight_decay=0.1, clip=0.1),
    "mrs-gated-gcn, batch norm": replace(GRAPHS, model="mrs-gated-gcn", norm="batch", optimizer="adam"),
    "mrs-gat, jk, residual": replace(GRAPHS, model="mrs-gat", split="degree,ppr", jk="cat", residual=True),
    # Draws of dropout are those of torch's generator on this kind of CPU.
    "mrs-sage, dropout": replace(GRAPHS, model="mrs-sage", dropout=0.3, schedule="constant", warmup=0),
    # Eigenvectors of an eigenvalue that occurs twice are those of the LAPACK that torch was built with.
    "mrs-gin, pe": replace(GRAPHS, model="mrs-gin", pe=2, seed=2),
}
NODES = Run(
    dataset="small", model="gcn", split="degree", layers=2, width=6, alpha=1.0, jk="max", normalize=True, dropout=0.0,
    input_dropout=False, start="shared",
    decay=0.0, undirected=False, self_loops=False, row_normalise=True, optimizer="adam",
    lr=0.02, weight_decay=0.0, epochs=3, patience=400, fold=0, seed=0, precision="float64",
    batch_size=None, schedule="constant", warmup=0, clip=0.0,
)  # fmt: skip
NODE_RUNS = {
    "gcn": replace(NODES, undirected=True, self_loops=True, weight_decay=0.01),
    "gcn, float32": replace(NODES, precision="float32"),
    "mrs-dir-gcn": replace(NODES, model="mrs-dir-gcn", alpha=0.5, jk="cat", fold=1),
    "mrs-dir-sage": replace(NODES, model="mrs-dir-sage", jk=None, normalize=False, start="independent", seed=1),
    "mrs-gcn, dropout of features": replace(NODES, model="mrs-gcn", dropout=0.4, input_dropout=True, fold=2),
}


@functools.cache
def graph_set():
    return molecules(48)


def train_eager(run, folder):
    """One run on graphs: its result and its weights at the best epoch."""
    result = train(run, graph_set(), folder=folder, accelerator="cpu")
    return [summary(result, load_best(folder, run, graph_set()).parameters())]


def train_two_in_lockstep(run, folder):
    """Two seeds and learning rates at once."""
    runs = [run, replace(run, seed=1, lr=0.004)]
    results = train_lockstep(runs, graph_set(), folder=folder, accelerator="cpu")
    assert {result.engine for result in results} == {"lockstep"}
    weights = [load_best(folder, each, graph_set()).parameters() for each in runs]
    return [summary(*each) for each in zip(results, weights, strict=True)]


def train_on_nodes(run, folder):
    """Two seeds at once: results and weights after the last epoch."""
    runs = [run, replace(run, seed=5)]
    results = train_lockstep(runs, node_set(), folder=folder, accelerator="cpu")
    files = [torch.load(folder / each.key / "checkpoint.pt", weights_only=True) for each in runs]
    weights = [file["parts"]["state"]["model"].values() for file in files]
    return [summary(*each) for each in zip(results, weights, strict=True)]


ENGINES = {
    "eager": (train_eager, GRAPH_RUNS),
    "lockstep": (train_two_in_lockstep, GRAPH_RUNS),
    "nodes": (train_on_nodes, NODE_RUNS),
}
CASES = [(engine, name) for engine, (_, runs) in ENGINES.items() for name in runs]


def summary(result, weights):
    """History, and sums of squares of weights: of all, which does not depend on how they are cut into tensors."""
    squares = sorted(float(weight.detach().double().pow(2).sum()) for weight in weights)
    return {
        "status": result.status,
        "metric": result.metric,
        "larger_is_better": result.larger_is_better,
        "parameters": result.parameters,
        "width": result.width,
        "best_epoch": result.best_epoch,
        "history": {name: result.history[name] for name in COLUMNS},
        "all_weights": sum(squares),
        "weights": squares,
    }


def measure_one(engine, name):
    run_with, runs = ENGINES[engine]
    with tempfile.TemporaryDirectory() as folder:
        return as_json(run_with(runs[name], Path(folder)))


def measure():
    found = {engine: {} for engine in ENGINES}
    for engine, name in CASES:
        found[engine][name] = measure_one(engine, name)
    return found


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_run_has_the_same_history_and_weights(engine, name):
    precision = ENGINES[engine][1][name].precision
    assert differences(measure_one(engine, name), pinned("runs")[engine][name], REL[precision], FLOOR) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_same_run_twice_gives_the_same_bits(engine):
    name = list(ENGINES[engine][1])[-2]  # with dropout, where the engine has it
    assert differences(measure_one(engine, name), measure_one(engine, name)) == []


def test_best_weights_are_not_those_of_the_start():
    # else the weights pinned of graphs would tell nothing of the optimiser
    results = [each for engine in ("eager", "lockstep") for runs in pinned("runs")[engine].values() for each in runs]
    assert all(each["best_epoch"] > 1 for each in results)
