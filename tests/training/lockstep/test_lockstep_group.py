from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, epoch_order
from graphprism.training.lockstep import group as lockstep_group
from tests.training.lockstep.eager import evaluate, make_group, train_eagerly
from tests.training.test_train import labelled

DATASET = molecules(24)
RUN = Run(layers=2, width=6, batch_size=3, epochs=3, warmup=0, precision="float64", lr=1e-2)
RUNS = [replace(RUN, seed=seed, lr=0.01 / (1 + seed)) for seed in range(2)]


def assert_eager(group, losses, dataset=DATASET):
    """All runs are where they are alone after as many epochs."""
    for number, run in enumerate(group.runs):
        network, expected = train_eagerly(run, dataset, epochs=len(losses))
        assert [float(loss[number]) for loss in losses] == pytest.approx(expected, rel=1e-8)
        found = group.networks.parameters.extract(number)
        torch.testing.assert_close(found, dict(network.state_dict()), rtol=1e-6, atol=1e-6)


def test_every_run_has_its_own_order():
    group = make_group(RUNS, DATASET)
    for epoch in (0, 2):
        graphs = group.graphs(epoch)
        assert graphs.shape == (7, 2, 3)  # 20 training graphs: the last batch has two and one that is none
        for number, run in enumerate(RUNS):
            order = DATASET.subset("train")[epoch_order(run.seed, epoch, 20)]
            assert graphs[:, number].flatten()[:20].equal(order)
            assert graphs[-1, number, 2] == 24
    # what was made ahead while the device was busy is what would be made
    group.train_epoch(0)
    for epoch in range(3):
        assert group.graphs(epoch).equal(make_group(RUNS, DATASET).graphs(epoch))


def test_batches_that_do_not_fit_the_first_shape(monkeypatch):
    # the largest graphs are rare: with three graphs in a batch some later epoch needs more rows than the first did
    monkeypatch.setattr(lockstep_group, "_MARGIN", 1.0)
    monkeypatch.setattr(lockstep_group, "_MULTIPLE", 1)
    runs = [replace(run, epochs=6) for run in RUNS]
    group = make_group(runs, DATASET)
    lengths, losses = [group._step.length], []
    for epoch in range(6):
        losses.append(group.train_epoch(epoch).loss)
        lengths.append(group._step.length)
    assert lengths[-1] > lengths[1] == lengths[0]  # it did happen
    assert_eager(group, losses)
    for number, run in enumerate(runs):
        network, _ = train_eagerly(run, DATASET, epochs=6)
        torch.testing.assert_close(group.evaluate("val")[0][number], evaluate(network, run, DATASET, "val"))


def test_what_follows_the_weights_is_taken_back_with_them():
    # or the first step after a capture would read weights of low precision that the warm-up has moved
    group = make_group([replace(run, precision="bf16") for run in RUNS], DATASET)
    for captured in group._captured.values():
        assert any(each is group.networks.parameters.low for each in captured._state)


def test_evaluation_before_and_after_the_shape_grows(monkeypatch):
    monkeypatch.setattr(lockstep_group, "_MARGIN", 1.0)
    group = make_group(RUNS, DATASET)
    first = group.evaluate("val")[0].clone()
    group._make_step(400, [400])
    assert group.evaluate("val")[0].equal(first)
    group.train_epoch(0)
    assert not group.evaluate("val")[0].equal(first)


def test_a_few_lengths_serve_all_steps(monkeypatch):
    monkeypatch.setattr(lockstep_group, "_MULTIPLE", 4)
    group = make_group(RUNS, DATASET)
    graphs = group.graphs(0)
    nodes = torch.tensor([DATASET.graph(number).num_nodes for number in range(24)] + [0])
    needed = nodes[graphs].sum(-1).amax(1)
    lengths = list(group._captured)
    assert lengths == sorted(lengths)
    assert all(length % 4 == 0 for length in lengths)
    assert lengths[-1] >= 1.05 * needed.max() - 1
    chosen = [
        next(length for length, each in group._captured.items() if each is step) for step in group.lay_ready(graphs)
    ]
    assert [min(length for length in lengths if length >= nodes) for nodes in needed.tolist()] == chosen
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("steps", [1, 3])
def test_an_epoch_laid_ready_in_pieces(monkeypatch, steps):
    monkeypatch.setattr(lockstep_group, "_STEPS", steps)
    group = make_group(RUNS, DATASET)
    assert_eager(group, [group.train_epoch(epoch).loss for epoch in range(2)])


@pytest.mark.parametrize("limit", [{"_EVALUATED": 100}, {"_READ_OUT": 3}], ids=str)
def test_evaluation_in_pieces(monkeypatch, limit):
    whole = make_group(RUNS, DATASET).evaluate("train")
    for name, value in limit.items():
        monkeypatch.setattr(lockstep_group, name, value)
    output, target = make_group(RUNS, DATASET).evaluate("train")
    torch.testing.assert_close(output, whole[0])
    assert output.shape == (2, 20, 1)
    assert target.equal(DATASET.y[DATASET.subset("train")].double())


@pytest.mark.parametrize("task", ["regression", "multilabel", "multiclass"])
def test_outputs_in_training_are_kept(task):
    dataset = replace(labelled(task) if task != "regression" else molecules(96), name="molecules")
    runs = [replace(run, lr=1e-30, batch_size=24) for run in RUNS]  # weights do not move
    group = make_group(runs, dataset, keep_outputs=True)
    trained = group.train_epoch(0)
    output, target = group.evaluate("train")
    for number, run in enumerate(runs):
        order = epoch_order(run.seed, 0, 80)
        torch.testing.assert_close(trained.output[number], output[number][order])
        assert trained.target[number].equal(target[order])
    assert make_group(runs, dataset).train_epoch(0).output is None


def test_steps_that_are_not_finite_are_named():
    group = make_group([replace(RUNS[0], lr=1e300), RUNS[1]], DATASET)
    found = group.train_epoch(0)
    assert found.bad_step.tolist() == [2, 0]
    assert found.loss.isfinite().tolist() == [False, True]


def test_measuring_takes_a_step_and_evaluates():
    group = make_group(RUNS, DATASET)
    before = group.networks.parameters.flat.clone()
    group.begin(0)
    group.measure()
    assert not group.networks.parameters.flat.equal(before)
