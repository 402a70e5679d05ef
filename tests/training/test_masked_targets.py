"""Several targets, some missing: losses and scores by hand, training by hand, and engines that agree."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from graphprism.datasets import from_data, molecules
from graphprism.training import METRICS, Run, Task, build_model, load, load_best, train, train_lockstep
from graphprism.training.optim import epoch_order
from graphprism.training.schedule import learning_rate
from graphprism.training.train import why_not_lockstep
from graphprism.transforms import SplitEdges
from tests.training.captured_cases import RUNS, make_engine, trained

NAN = float("nan")
RUN = Run(layers=2, width=8, epochs=2, warmup=0, batch_size=16, precision="float64", lr=0.01)
COLUMNS = ("train_loss", "train", "val", "test")


def complete(task, metric):
    """Molecules with three targets."""
    dataset = molecules(60)
    y = torch.cat([dataset.y, -dataset.y, dataset.y**2], 1)
    y = (y > y.median(0).values).float() if task == "multilabel" else y
    return replace(dataset, task=task, metric=metric, y=y)


def with_gaps(dataset):
    """The same without a third of the targets; one batch of the first epoch has no known target in column 1."""
    y = dataset.y.clone()
    draw = torch.rand(y.shape, generator=torch.Generator().manual_seed(1))
    y[(draw < 1 / 3) & (draw > draw.amin(1, keepdim=True))] = NAN
    train = dataset.subset("train")
    first = train[epoch_order(RUN.seed, 0, train.numel())][: RUN.batch_size]
    y[first, 1], y[first, 2] = NAN, dataset.y[first, 2]
    return replace(dataset, y=y)


KINDS = [("multilabel", "ap"), ("regression", "mae"), ("regression", "rmse")]


def row_losses(task, metric, output, target):
    """The definition, one entry at a time."""
    rows = []
    for found, wanted in zip(output, target, strict=True):
        each = []
        for value, label in zip(found, wanted, strict=True):
            if not label.isnan():
                error = (value - label).abs() if metric == "mae" else (value - label) ** 2
                each.append(
                    torch.nn.functional.binary_cross_entropy_with_logits(value, label)
                    if task == "multilabel"
                    else error
                )
        rows.append(sum(each) / len(each))
    return torch.stack(rows)


@pytest.mark.parametrize(("task", "metric"), KINDS)
def test_losses_and_gradients_by_hand(task, metric):
    y = with_gaps(complete(task, metric)).y.double()
    output = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = Task("graph", task, metric, has_missing=True).losses(output, y)
    expected = row_losses(task, metric, output, y)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    (gradient,), (by_hand,) = (torch.autograd.grad(each.sum(), output) for each in (found, expected))
    torch.testing.assert_close(gradient, by_hand, rtol=1e-14, atol=0)
    assert y.isnan().any()
    assert not gradient[y.isnan()].any()


@pytest.mark.parametrize(("task", "metric"), KINDS)
@pytest.mark.parametrize("output", [torch.inf, -torch.inf, NAN, 1e300])
def test_an_output_without_target_has_no_gradient_whatever_it_is(task, metric, output):
    leaf = torch.tensor([[0.5, output], [output, 0.5]], dtype=torch.float64).requires_grad_()
    target = torch.tensor([[1.0, NAN], [NAN, NAN]], dtype=torch.float64)
    losses = Task("graph", task, metric, has_missing=True).losses(leaf, target)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    assert losses.isfinite().all()
    assert losses[1] == 0
    assert gradient[0, 0] != 0
    assert gradient.view(-1)[1:].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("task", "metric"), [*KINDS, ("multilabel", "auroc")])
def test_losses_without_gaps_are_the_same_with_and_without_a_mask(task, metric):
    dataset = complete(task, metric)
    assert not Task.of(dataset).has_missing
    assert Task.of(with_gaps(dataset)).has_missing
    output = torch.randn(60, 3, dtype=torch.float64)
    masked = Task("graph", task, metric, has_missing=True)
    torch.testing.assert_close(
        masked.losses(output, dataset.y.double()), Task.of(dataset).losses(output, dataset.y.double())
    )
    assert masked.score(output, dataset.y) == Task.of(dataset).score(output, dataset.y)


def test_class_weights_count_known_labels():
    dataset = replace(complete("multilabel", "ap"), split=torch.zeros(60, dtype=torch.long))
    y = dataset.y.clone()
    y[:, 0] = NAN
    y[:4, 0], y[4:8, 0] = 1, 0
    y[8:10, 0] = 1
    y[:, 2] = NAN
    weights = Task.of(replace(dataset, y=y), Run(class_weights="balanced")).weights
    assert weights[:2] == pytest.approx((10 / 8, 10 / 12))
    assert weights[2:4] == Task.of(dataset, Run(class_weights="balanced")).weights[2:4]
    assert weights[4:] == (0, 0)
    task = Task("graph", "multilabel", "ap", weights, has_missing=True)
    assert task.losses(torch.zeros(60, 3), y).isfinite().all()


def known(output, target):
    keep = ~target.isnan()
    return output[keep].numpy(), target[keep].numpy()


def average_precision_score(wanted, found):
    ranked = [bool(wanted[k]) for k in sorted(range(len(found)), key=lambda k: -found[k])]
    return sum(sum(ranked[: k + 1]) / (k + 1) for k, label in enumerate(ranked) if label) / sum(ranked)


def roc_auc_score(wanted, found):
    pairs = [
        (a, b) for a, own in zip(found, wanted, strict=True) if own for b, o in zip(found, wanted, strict=True) if not o
    ]
    return sum(float(a > b) + 0.5 * float(a == b) for a, b in pairs) / len(pairs)


def f1_score(wanted, found):
    both = sum(bool(a) and bool(b) for a, b in zip(found, wanted, strict=True))
    return 2 * both / (sum(map(bool, found)) + sum(map(bool, wanted)))


def test_scores_by_hand():
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(50, 4, dtype=torch.float64, generator=generator)
    target = (torch.rand(50, 4, generator=generator) < 0.4).double()
    target[torch.rand(50, 4, generator=generator) < 0.3] = NAN
    target[target[:, 1] == 0, 1] = NAN  # of label 1 one value is known, of label 3 none
    target[:, 3] = NAN
    pairs = [known(output[:, label], target[:, label]) for label in range(3)]
    score = {name: METRICS[name].score(output, target) for name in ("ap", "auroc", "accuracy", "f1", "mae", "rmse")}
    assert score["ap"] == pytest.approx(sum(average_precision_score(pairs[k][1], pairs[k][0]) for k in (0, 2)) / 2)
    assert score["auroc"] == pytest.approx(sum(roc_auc_score(pairs[k][1], pairs[k][0]) for k in (0, 2)) / 2)
    assert score["f1"] == pytest.approx(sum(f1_score(wanted, found > 0) for found, wanted in pairs) / 3)
    found, wanted = known(output, target)
    assert score["accuracy"] == pytest.approx(100 * ((found > 0) == (wanted > 0.5)).mean())
    assert score["mae"] == pytest.approx(abs(found - wanted).mean())
    assert score["rmse"] == pytest.approx(((found - wanted) ** 2).mean() ** 0.5)


@pytest.mark.parametrize("name", ["ap", "auroc", "accuracy", "f1", "mae", "rmse"])
def test_nothing_known_has_no_score(name):
    assert str(METRICS[name].score(torch.zeros(3, 2).double(), torch.full((3, 2), NAN))) == "nan"


def train_by_hand(run, dataset):
    """Losses of epochs and outputs of the validation graphs, with nothing but torch and PyG."""
    network = build_model(run, dataset).double()
    optimizer = torch.optim.AdamW(network.parameters(), lr=run.lr, weight_decay=run.weight_decay)
    graphs = [SplitEdges(run.split)(dataset.graph(number)) for number in range(len(dataset))]
    chosen, losses, outputs = dataset.subset("train"), [], []

    def forward(batch):
        return network(batch.x, batch.edge_index, batch.edge_type, edge_attr=batch.edge_attr, batch=batch.batch)

    for epoch in range(run.epochs):
        order, total = chosen[epoch_order(run.seed, epoch, chosen.numel())].tolist(), 0.0
        optimizer.param_groups[0]["lr"] = learning_rate(run, epoch)
        for batch in DataLoader([graphs[number] for number in order], run.batch_size):
            rows = row_losses(dataset.task, dataset.metric, forward(batch), batch.y.double())
            optimizer.zero_grad()
            rows.mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), run.clip)
            optimizer.step()
            total += rows.sum().item()
        losses.append(total / len(order))
        with torch.no_grad():
            held = [graphs[number] for number in dataset.subset("val").tolist()]
            outputs.append(forward(next(iter(DataLoader(held, 999)))))
    return losses, outputs


@pytest.mark.parametrize(("task", "metric"), KINDS)
def test_training_equals_training_by_hand_and_lockstep(task, metric):
    dataset = with_gaps(complete(task, metric))
    first = dataset.subset("train")[epoch_order(0, 0, 50)][:16]
    assert dataset.y[first, 1].isnan().all()
    losses, outputs = train_by_hand(RUN, dataset)
    alone = train(RUN, dataset, accelerator="cpu", engine="eager")
    assert alone.history["train_loss"] == pytest.approx(losses, rel=1e-9)
    target = dataset.y[dataset.subset("val")]
    assert alone.history["val"] == pytest.approx([METRICS[metric].score(each, target) for each in outputs], rel=1e-9)
    assert why_not_lockstep(RUN, dataset) == ""
    other, found = train_lockstep([replace(RUN, seed=7), RUN], dataset, accelerator="cpu")
    for column in COLUMNS:
        assert found.history[column] == pytest.approx(alone.history[column], rel=1e-9)
    assert other.status == found.status == "finished"


@pytest.mark.parametrize(("task", "metric"), KINDS[:2])
def test_padded_steps_are_the_plain_steps(task, metric):
    dataset, run = with_gaps(complete(task, metric)), replace(RUNS["gated"], lr=0.02)
    padded, plain = (trained(make_engine(run, captures, dataset=dataset))[0] for captures in (True, False))
    torch.testing.assert_close(padded, plain, rtol=1e-10, atol=1e-11)
    assert padded.isfinite().all()


def test_checkpoint_and_predictions(tmp_path):
    dataset = with_gaps(complete("multilabel", "ap"))

    def stop(report):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(RUN, dataset, folder=tmp_path, accelerator="cpu", on_epoch=stop)
    again = train(RUN, dataset, folder=tmp_path, accelerator="cpu")
    for column in COLUMNS:
        assert again.history[column] == train(RUN, dataset, accelerator="cpu").history[column]
    assert all(each.isfinite().all() for each in load_best(tmp_path, RUN, dataset).state_dict().values())
    scores = load(tmp_path).predict(dataset.select(dataset.subset("test"))).scores
    assert scores.shape == (dataset.subset("test").numel(), 3)
    assert scores.isfinite().all()


@pytest.mark.parametrize("neighbors", [None, 3])
def test_nodes_with_missing_labels_are_trained(neighbors):
    here = torch.arange(40)
    edges = torch.stack([torch.cat([here, (here + 1) % 40]), torch.cat([(here + 1) % 40, here])])
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, :2] > 0).float()
    y[::3, 0], y[1::3, 1] = NAN, NAN
    y[9] = NAN
    dataset = from_data(Data(x=x, edge_index=edges, y=y), shares=(0.6, 0.2, 0.2))
    more = {"batch_size": None} if neighbors is None else {"batch_size": 8, "neighbors": neighbors}
    run = Run(layers=1, width=8, epochs=20, warmup=0, lr=0.05, schedule="constant", **more)
    result = train(run, dataset, accelerator="cpu")
    losses = result.history["train_loss"]
    assert losses[-1] < 0.9 * losses[0]
    assert all(value is not None for value in result.history["val"])
