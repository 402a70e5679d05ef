"""Own tables on a GPU: what is trained there predicts the same there and on the CPU, sampled or not."""

import csv
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import graphprism as gp
from graphprism.cli.app import app
from graphprism.datasets import from_files
from graphprism.training import Run, estimate, train, train_lockstep
from tests.datasets.own_files import write, write_molecules, write_people
from tests.training.node_sets import small_links, small_run, small_set

pytestmark = pytest.mark.gpu

GPU = "cuda"
WHOLE = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 4, "lr": 0.03, "self_loops": True}
GRAPHS = {"layers": 2, "width": 8, "batch_size": 16, "warmup": 0, "epochs": 4, "lr": 0.01}
# the targets, which would say each other
TARGETS = {"sick", "group", "income", "likes_a", "likes_b"}


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def people(folder, target, **options):
    wanted = [] if target is None else target.split(",")
    return from_files(write_people(folder), wanted or None, drop=tuple(sorted(TARGETS - {*wanted})), **options)


@pytest.mark.parametrize("target", ["group", "sick", "income", "likes_a,likes_b"])
@pytest.mark.parametrize(
    "options", [{"model": "mrs-gcn"}, {"model": "mrs-dir-sage", "norm": "batch"}], ids=["", "norm"]
)
def test_nodes(tmp_path, target, options):
    dataset = people(tmp_path / "people", target)
    train(Run(**WHOLE, **options), dataset, folder=tmp_path / "out", accelerator=GPU)
    there, here = (gp.load(tmp_path / "out", device) for device in (GPU, "cpu"))
    assert there.device.type == GPU
    close(there(dataset), here(dataset))
    close(there.predict(tmp_path / "people").scores, here.predict(tmp_path / "people").scores)


def test_new_nodes_of_the_same_graph(tmp_path):
    dataset = people(tmp_path / "people", "sick")
    train(Run(**WHOLE), dataset, folder=tmp_path / "out", accelerator=GPU)
    new = write(tmp_path / "new", nodes="person,age,town,member\nnew,55,Ulm,1\n", edges="from,to\nnew,p3\np5,new\n")
    there, here = (
        gp.load(tmp_path / "out", device).predict(new, graph=tmp_path / "people").scores for device in (GPU, "cpu")
    )
    close(there, here)


@pytest.mark.parametrize("sampled", [{}, {"neighbors": 2, "batch_size": 32}], ids=["whole", "sampled"])
def test_links(tmp_path, sampled):
    dataset = people(tmp_path / "people", None, task="link")
    train(Run(**{**WHOLE, **sampled}), dataset, folder=tmp_path / "out", accelerator=GPU)
    pairs = dataset.pairs[:, dataset.subset("test")]
    there, here = (gp.load(tmp_path / "out", device)(dataset, pairs) for device in (GPU, "cpu"))
    assert there.shape == (pairs.size(1), 1)
    close(there, here)


@pytest.mark.parametrize("target", ["toxic", "energy"])
@pytest.mark.parametrize("engine", [train, train_lockstep], ids=["eager", "lockstep"])
def test_graphs(tmp_path, target, engine):
    drop = ("energy",) if target == "toxic" else ("toxic",)
    dataset = from_files(write_molecules(tmp_path / "molecules"), target, drop=drop)
    run = Run(**GRAPHS, split="degree * attr(edge_attr)")
    engine(run if engine is train else [run], dataset, folder=tmp_path / "out", accelerator=GPU)
    there, here = (gp.load(tmp_path / "out", device)(dataset) for device in (GPU, "cpu"))
    assert there.shape == (len(dataset), 1)
    close(there, here)


# dropout 0 and float64: the same numbers but for the order of sums
SAMPLED = small_run(dropout=0.0, epochs=3, neighbors=3, batch_size=20)
RUNS = {
    "shared": {"model": "mrs-gcn"},
    "directed": {"model": "mrs-dir-sage", "alpha": 0.5},
    "norm": {"model": "mrs-sage", "norm": "batch", "jk": "cat", "normalize": False},
}


@pytest.mark.parametrize("make", [small_set, small_links])
@pytest.mark.parametrize("name", RUNS)
def test_sampled_training_is_that_of_the_cpu(make, name):
    run = replace(SAMPLED, **RUNS[name])
    there, here = (train(run, make(), accelerator=device) for device in (GPU, "cpu"))
    for column in ("train_loss", "val", "test"):
        assert there.history[column] == pytest.approx(here.history[column], rel=1e-6), column


@pytest.mark.parametrize("make", [small_set, small_links])
def test_graph_that_is_too_large_for_the_gpu_is_evaluated_in_parts(monkeypatch, make):
    run = replace(SAMPLED, **RUNS["norm"])
    whole = train(run, make(), accelerator=GPU)
    monkeypatch.setattr("graphprism.training.sampled_graph._DEVICE_SHARE", 0.0)
    monkeypatch.setattr("graphprism.training.sampled_graph._EVALUATED_AT_ONCE", 7)
    parts = train(run, make(), accelerator=GPU)
    for column in ("train_loss", "val", "test"):
        assert parts.history[column] == pytest.approx(whole.history[column], rel=1e-9), column


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["graph on the CPU", "graph on the GPU"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_large_graph_is_predicted_layer_by_layer(tmp_path, monkeypatch, share, precision):
    dataset = people(tmp_path / "people", "group")
    run = Run(**WHOLE, model="mrs-dir-gcn", precision=precision)
    train(run, dataset, folder=tmp_path / "out", accelerator=GPU)
    whole = gp.load(tmp_path / "out", "cpu")(dataset)
    monkeypatch.setattr("graphprism.training.predictor._NODES_AT_ONCE", 20)
    monkeypatch.setattr("graphprism.training.sampled_graph._EVALUATED_AT_ONCE", 7)
    monkeypatch.setattr("graphprism.training.sampled_graph._DEVICE_SHARE", share)
    close(gp.load(tmp_path / "out", GPU)(dataset), whole)


def test_estimate_of_a_sampled_run():
    found = estimate(replace(SAMPLED, **RUNS["shared"], width=64), small_set(), accelerator=GPU)
    assert found.fits
    assert 0 < found.peak_bytes < found.free_bytes


def test_commands_on_a_gpu(tmp_path):
    """Import, train sampled and predict, as in docs/own-data.md."""
    folder, sets, out = write_people(tmp_path / "people"), str(tmp_path / "sets"), str(tmp_path / "out")
    drop = ["--drop", ",".join(sorted(TARGETS - {"sick"}))]
    small = ["--layers", "2", "--width", "8", "--epochs", "3", "--model", "mrs-gcn", "--accelerator", GPU]
    commands = [
        ["data", "import", str(folder), "--target", "sick", *drop, "--data", sets],
        [
            "train",
            "--dataset",
            "people",
            "--data",
            sets,
            *small,
            "--neighbors",
            "3",
            "--batch-size",
            "16",
            "--out",
            out,
        ],
        ["predict", out, "--input", str(folder), "-o", str(tmp_path / "there.csv"), "--accelerator", GPU],
        ["predict", out, "--input", str(folder), "-o", str(tmp_path / "here.csv"), "--accelerator", "cpu"],
    ]
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    there, here = (
        list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines())) for name in ("there", "here")
    )
    assert [row["person"] for row in there] == [row["person"] for row in here]
    scores = [torch.tensor([float(row["probability_yes"]) for row in rows]) for rows in (there, here)]
    close(*scores)
