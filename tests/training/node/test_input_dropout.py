from dataclasses import replace

import pytest
import torch

from graphprism.training.node import build_node_model, train_node
from graphprism.training.node.input_dropout import input_dropout
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_step import NodeStep
from tests.training.node.node_sets import numbers, small_run, small_set

CPU = torch.device("cpu")


def sparse_set():
    """The small set with features of which one in a hundred is set, which the CPU keeps in CSR."""
    node = torch.arange(48)
    x = torch.zeros(48, 200)
    x[node, node % 3] = x[node, 3 + node] = 1.0
    return replace(small_set(), x=x)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


SETS = pytest.mark.parametrize("make", [small_set, sparse_set])


def features(make):
    return NodeData.prepare(small_run(), make(), CPU).x


@SETS
def test_a_share_is_dropped_and_the_rest_is_scaled(make):
    x = features(make)
    before = x.to_dense().clone()
    whole = torch.stack([input_dropout(x, 0.25, generator(seed)).to_dense() for seed in range(40)])
    stored = before != 0
    kept = whole[:, stored] != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(whole[:, stored][kept], (before[stored] / 0.75).expand_as(kept)[kept])
    assert not whole[:, ~stored].any()
    assert torch.equal(x.to_dense(), before)  # others train on it, too


@SETS
def test_the_generator_decides(make):
    x = features(make)
    first, same, other = (input_dropout(x, 0.5, generator(seed)).to_dense() for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


@SETS
def test_without_a_share_nothing_is_done_and_nothing_is_drawn(make):
    x, drawn = features(make), generator()
    assert input_dropout(x, 0.0, drawn) is x
    assert torch.equal(drawn.get_state(), generator().get_state())


def test_features_that_are_mostly_zeros_stay_sparse():
    x = features(sparse_set)
    assert x.layout == torch.sparse_csr
    assert input_dropout(x, 0.5, generator()).layout == torch.sparse_csr


@SETS
@pytest.mark.parametrize("model", ["mlp", "gcn", "mrs-dir-gcn", "mrs-sage", "mrs-gat"])
def test_the_first_layer_hears_what_is_left(make, model):
    # one layer that is the output: nothing else is dropped
    run = small_run(model=model, input_dropout=True, dropout=0.5, layers=1, jk=None)
    data = NodeData.prepare(run, make(), CPU)
    step = NodeStep(run, build_node_model(run, make()), data)
    dense = replace(data, x=input_dropout(data.x, 0.5, step.generator.manual_seed(7)).to_dense())
    expected = step.model(dense.x, dense.adj)
    step.generator.manual_seed(7)
    step.model.train()
    torch.testing.assert_close(step._outputs(), expected)
    step.run = replace(run, input_dropout=False)
    torch.testing.assert_close(step._outputs(), step.model(data.x, data.adj))
    step.run = run
    step.model.eval()
    torch.testing.assert_close(step._outputs(), step.model(data.x, data.adj))  # scores are those of all features


@SETS
def test_every_epoch_drops_other_features(make):
    # weights that hardly move: losses differ by what was dropped
    history = train_node(
        small_run(input_dropout=True, dropout=0.5, layers=1, jk=None, lr=1e-12), make(), accelerator="cpu"
    ).history
    assert len({round(loss, 6) for loss in history["train_loss"]}) == 12


@SETS
def test_a_run_that_goes_on_drops_the_same(make, tmp_path):
    def stop(report):
        if report.epoch == 5:
            raise KeyboardInterrupt

    run = small_run(input_dropout=True, dropout=0.5, precision="float32")
    whole = train_node(run, make(), accelerator="cpu")
    with pytest.raises(KeyboardInterrupt):
        train_node(run, make(), folder=tmp_path, accelerator="cpu", checkpoint_seconds=0, on_epoch=stop)
    epochs = []
    resumed = train_node(
        run, make(), folder=tmp_path, accelerator="cpu", on_epoch=lambda report: epochs.append(report.epoch)
    )
    assert epochs[0] == 5  # the checkpoint is that of epoch 4
    assert numbers(resumed) == numbers(whole)


def test_a_half_precision():
    exact, rounded = (
        train_node(
            small_run(input_dropout=True, dropout=0.5, layers=1, jk=None, precision=name),
            small_set(),
            accelerator="cpu",
        )
        for name in ("float32", "bf16")
    )
    assert rounded.history["train_loss"] == pytest.approx(exact.history["train_loss"], rel=0.05)
