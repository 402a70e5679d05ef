"""Every level with every kind of target: losses and metrics by hand, training by every engine that can."""

import math
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from graphprism.datasets import from_data, molecules
from graphprism.training import METRICS, Run, Task, train, train_lockstep
from graphprism.training.train import why_not_lockstep
from tests.pairwise import in_turn

WHOLE = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 8, "lr": 0.03, "schedule": "constant"}


def ring(task: str, count: int = 60):
    """A ring whose targets follow from the features."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    here = torch.arange(count)
    edges = torch.cat([torch.stack([here, (here + 1) % count]), torch.stack([(here + 1) % count, here])], 1)
    y = {
        "regression": x[:, :1] + x[:, 1:2],
        "binary": (x[:, 0] > 0).long(),
        "multiclass": x[:, :3].argmax(1),
        "multilabel": (x[:, :2] > 0).long(),
        "link": None,
    }[task]
    return from_data(Data(x=x, edge_index=edges, y=y), task=task, shares=(0.6, 0.2, 0.2))


def graphs(task: str):
    dataset = molecules(60)
    y = {
        "binary": (dataset.y > dataset.y.median()).float(),
        "multilabel": torch.cat([dataset.y > 0, dataset.y > dataset.y.median()], 1).float(),
        "multiclass": (dataset.y.view(-1) > dataset.y.median()).long(),
        "regression": dataset.y,
    }[task]
    metric = {"binary": "auroc", "multilabel": "ap", "multiclass": "accuracy", "regression": "rmse"}[task]
    return replace(dataset, task=task, metric=metric, y=y, num_classes=2 if task == "multiclass" else 0)


@in_turn(task=["regression", "binary", "multiclass", "multilabel", "link"], model=["mrs-gcn", "dir-sage"])
def test_targets_on_one_graph_are_learnt(task, model):
    dataset = ring(task)
    result = train(Run(model=model, **WHOLE), dataset, accelerator="cpu")
    losses = result.history["train_loss"]
    # features say nothing of the links of this ring
    assert losses[-1] < (0.98 if task == "link" else 0.9) * losses[0]
    assert result.metric == dataset.metric
    assert all(value is not None for value in result.history["test"])


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multilabel"])
def test_lockstep_on_graphs_trains_as_alone(task):
    dataset = graphs(task)
    runs = [Run(layers=2, width=8, epochs=2, batch_size=16, precision="float64", seed=seed) for seed in (0, 1)]
    assert why_not_lockstep(runs[0], dataset) == ""
    for run, result in zip(runs, train_lockstep(runs, dataset, accelerator="cpu"), strict=True):
        alone = train(run, dataset, accelerator="cpu")
        for column in ("train_loss", "val", "test"):
            assert result.history[column] == pytest.approx(alone.history[column], rel=1e-9)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("binary", "on nodes lockstep knows accuracy of classes alone, not binary by auroc"),
        ("link", "links are trained one by one"),
    ],
)
def test_what_lockstep_cannot_do_is_trained_one_by_one(task, reason):
    dataset, runs = ring(task), [Run(**{**WHOLE, "epochs": 2}, seed=seed) for seed in (0, 1)]
    assert why_not_lockstep(runs[0], dataset) == reason
    results = train_lockstep(runs, dataset, accelerator="cpu")
    assert [result.engine for result in results] == ["eager", "eager"]
    assert results[1].history["val"] == train(runs[1], dataset, accelerator="cpu").history["val"]


@pytest.mark.parametrize("task", ["binary", "link"])
def test_run_that_was_cut_short_goes_on_with_the_same_bits(tmp_path, task):
    dataset, run = ring(task), Run(**WHOLE, dropout=0.3, input_dropout=True)

    def stop(report):
        if report.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, dataset, folder=tmp_path, accelerator="cpu", on_epoch=stop)
    again = train(run, dataset, folder=tmp_path, accelerator="cpu")
    assert again.history["train_loss"] == train(run, dataset, accelerator="cpu").history["train_loss"]


def test_nodes_of_the_eager_engine_equal_those_of_the_full_graph():
    dataset = ring("multiclass")
    run = Run(**WHOLE, precision="float64", class_weights="balanced")
    by_count = train(run, dataset, accelerator="cpu")
    by_f1 = train(replace(run, metric="f1"), dataset, accelerator="cpu")
    assert by_f1.metric == "f1"
    assert by_f1.history["train_loss"] == pytest.approx(by_count.history["train_loss"], rel=1e-9)


def test_scores_by_hand():
    output, target = torch.tensor([[2.0], [1.0], [0.5], [-1.0]]).double(), torch.tensor([[1.0], [0.0], [1.0], [0.0]])
    scores = {name: metric.score(output, target) for name, metric in METRICS.items() if "binary" in metric.targets}
    assert scores["auroc"] == pytest.approx(3 / 4)
    assert scores["ap"] == pytest.approx((1 + 2 / 3) / 2)
    assert scores["accuracy"] == 75.0
    assert scores["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1))
    assert math.isnan(scores["hits@10"])
    assert METRICS["rmse"].score(torch.tensor([[1.0], [5.0]]).double(), torch.tensor([[1.0], [1.0]])) == pytest.approx(
        8**0.5
    )


def test_auroc_of_classes_and_labels_is_a_mean():
    target = torch.tensor([0, 1, 2, 1])
    output = torch.eye(3, dtype=torch.float64)[target] * 5
    assert METRICS["auroc"].score(output, target) == 1.0
    labels = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert (
        METRICS["auroc"].score(torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double(), labels) == 1.0
    )  # the second has one value


def test_hits_count_ties_as_missed():
    output = torch.tensor([3.0, 1.0, *[1.0] * 11]).double()[:, None]
    target = torch.tensor([1.0, 1.0, *[0.0] * 11])[:, None]
    assert METRICS["hits@10"].score(output, target) == 0.5


def test_hits_need_more_pairs_without_an_edge_than_they_count():
    output = torch.tensor([3.0, 2.0, *[1.0] * 11]).double()[:, None]
    target = torch.tensor([1.0, 1.0, *[0.0] * 11])[:, None]
    assert METRICS["hits@10"].score(output, target) == 1.0
    assert math.isnan(METRICS["hits@10"].score(output[:-1], target[:-1]))


def test_f1_needs_a_row_with_the_label():
    output = torch.tensor([[1.0, 1.0], [-1.0, 1.0]]).double()
    target = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert METRICS["f1"].score(output, target) == 1.0
    assert math.isnan(METRICS["f1"].score(output[:, 1:], target[:, 1:]))
    assert METRICS["f1"].score(-output[:, :1], target[:, :1]) == 0.0


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_balanced_classes_count_the_same(task):
    dataset = graphs(task)
    rare = dataset.y.clone()
    rare[10:50] = 0
    dataset = replace(dataset, y=rare)
    weighted = Task.of(dataset, Run(class_weights="balanced"))
    y = rare[dataset.subset("train")]
    output = torch.zeros(y.size(0), dataset.num_outputs)
    losses = weighted.losses(output, y)
    if task == "multilabel":
        assert float(losses.mean()) == pytest.approx(float(Task.of(dataset).losses(output, y).mean()), rel=1e-5)
        return
    by_class = [float(losses[y.view(-1) == number].sum()) for number in (0, 1)]
    assert by_class[0] == pytest.approx(by_class[1], rel=1e-5)


def test_pairs_are_drawn_from_the_training_graph_alone():
    from graphprism.training.whole_graph import WholeGraph

    dataset = ring("link", 12)
    source = WholeGraph(Run(**WHOLE), dataset)
    held = {tuple(sorted(p)) for p in dataset.pairs[:, (dataset.split > 0) & (dataset.y.view(-1) == 1)].T.tolist()}
    kept = {tuple(sorted(p)) for p in dataset.edge_index.T.tolist()}
    drawn = set()
    for epoch in range(200):
        rows = source.training_rows(epoch)
        (batch,) = source.batches(rows, 1)
        drawn |= {tuple(sorted(p)) for p, y in zip(batch.at.T.tolist(), batch.y, strict=True) if y == 0}
    assert not drawn & kept
    assert drawn & held  # nothing is known of them
    first = source.batches(source.training_rows(3), 1)
    again = source.batches(source.training_rows(3), 1)
    assert torch.equal(next(first).at, next(again).at)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Run(**WHOLE, metric="mae"), r"the metric must be one of \['ap', 'auroc', .*\] for the task binary, got 'mae'"),
        (Run(**WHOLE, metric="kappa"), r"`metric` must be one of"),
        (
            Run(**{**WHOLE, "batch_size": 4}),
            r"`batch_size` must be None \(the whole graph\) for targets of nodes, got 4",
        ),
    ],
)
def test_run_that_does_not_fit_the_target_is_refused(run, message):
    with pytest.raises(ValueError, match=message):
        train(run, ring("binary"), accelerator="cpu")


def test_class_weights_need_classes():
    with pytest.raises(ValueError, match="`class_weights` must be None without classes or labels"):
        train(Run(**WHOLE, class_weights="balanced"), ring("regression"), accelerator="cpu")
