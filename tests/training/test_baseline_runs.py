"""Runs of networks of other packages: on every kind of target, resumed, and loaded to predict."""

import warnings

import pytest
import torch
from torch_geometric.data import Data

import graphprism as gp
from graphprism.datasets import from_data
from graphprism.nn import BASELINES
from graphprism.training import Run, Task, train
from graphprism.training.eager import EagerEngine
from graphprism.training.processes import make_fabric
from tests.pairwise import in_turn

COUNT = 40


def graph(task: str) -> Data:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(COUNT, 5, generator=generator)
    y = {
        "binary": (x[:, 0] > 0).long(),
        "multiclass": x[:, :3].argmax(1),
        "multilabel": (x[:, :2] > 0).float(),
        "regression": x[:, 0] + x[:, 1],
    }[task]
    return Data(x=x, edge_index=torch.randint(COUNT, (2, 160), generator=generator), y=y)


def run(model: str, **options) -> Run:
    jk = "max" if "jk" in BASELINES[model].fields else None
    return Run("own", model, jk=jk, layers=2, width=8, epochs=10, batch_size=None, dropout=0.0, lr=0.01, **options)


@pytest.fixture(autouse=True)
def beta_of_csr():
    with warnings.catch_warnings():  # torch calls CSR a beta, once in a process
        warnings.filterwarnings("ignore", "Sparse CSR")
        yield


@in_turn(model=list(BASELINES), task=["binary", "regression", "multilabel", "multiclass"])
def test_baseline_is_trained_and_predicts(model, task, tmp_path):
    data, settings = graph(task), run(model)
    result = train(settings, from_data(data), folder=tmp_path, accelerator="cpu")
    losses = result.history["train_loss"]
    assert result.status == "finished"
    assert min(losses[1:]) < losses[0]
    out = gp.load(tmp_path)(data)
    assert out.shape == (COUNT, 1 if task in ("binary", "regression") else out.size(1))
    assert out.isfinite().all()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_baseline_predicts_what_training_scored(task, tmp_path):
    data = graph(task)
    dataset = from_data(data)
    result = train(run("h2gcn"), dataset, folder=tmp_path, accelerator="cpu")
    out, mask = gp.load(tmp_path)(data), dataset.test_mask[:, 0]
    score = Task.of(dataset, run("h2gcn")).score(out[mask], dataset.y[mask])
    assert score == pytest.approx(result.at_best("test"))


def test_resumed_baseline_ends_with_the_same_bits(tmp_path):
    dataset, settings = from_data(graph("binary")), run("fsgnn")
    whole = train(settings, dataset, folder=tmp_path / "whole", accelerator="cpu")
    train(settings, dataset, folder=tmp_path / "again", accelerator="cpu", on_epoch=lambda report: report.epoch == 2)
    again = train(settings, dataset, folder=tmp_path / "again", accelerator="cpu")
    assert again.history["train_loss"] == whole.history["train_loss"]


def test_eager_engine_keeps_decays_of_parameters():
    settings = run("fsgnn", weight_decay=0.25, options="head_decay=0.125,soft_decay=0.5")
    engine = EagerEngine(make_fabric(settings, "cpu", 1, 1), settings, from_data(graph("binary")))
    assert [group["weight_decay"] for group in engine.optimizer.param_groups] == [0.25, 0.5, 0.125]


@pytest.mark.parametrize("model", ["linkx", "glognn"])
def test_baseline_with_a_weight_for_each_node_refuses_other_graphs(model, tmp_path):
    data = graph("multiclass")
    train(run(model), from_data(data), folder=tmp_path, accelerator="cpu")
    larger = Data(x=torch.randn(COUNT + 1, 5), edge_index=data.edge_index)
    with pytest.raises(ValueError, match=r"must have the 40 nodes of training, each of which has weights .* got 41"):
        gp.load(tmp_path)(larger)


def test_baseline_without_weights_of_nodes_takes_other_graphs(tmp_path):
    data, settings = graph("binary"), run("glognn", options="delta=1.0")
    train(settings, from_data(data), folder=tmp_path, accelerator="cpu")
    larger = Data(x=torch.randn(COUNT + 1, 5), edge_index=data.edge_index)
    assert gp.load(tmp_path)(larger).shape == (COUNT + 1, 1)
