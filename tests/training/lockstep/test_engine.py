import math
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run
from graphprism.training.lockstep import engine as lockstep_engine
from graphprism.training.optim import epoch_order
from graphprism.training.task import Task
from tests.training.lockstep.eager import evaluate, make_engine, train_eagerly
from tests.training.test_train import labelled

DATASET = molecules(24)
RUN = Run(layers=2, width=6, batch_size=3, epochs=3, warmup=0, precision="float64", lr=1e-2)
RUNS = [replace(RUN, seed=seed, lr=0.01 / (1 + seed)) for seed in range(2)]


def assert_eager(engine, losses, dataset=DATASET):
    """All runs are where they are alone after as many epochs."""
    for number, run in enumerate(engine.runs):
        network, expected = train_eagerly(run, dataset, epochs=len(losses))
        assert [loss[number] for loss in losses] == pytest.approx(expected, rel=1e-8)
        found = engine.networks.parameters.extract(number)
        torch.testing.assert_close(found, dict(network.state_dict()), rtol=1e-6, atol=1e-6)


def test_every_run_has_its_own_order():
    engine = make_engine(RUNS, DATASET)
    for epoch in (0, 2):
        graphs = engine.graphs(epoch)
        assert graphs.shape == (7, 2, 3)  # 20 training graphs: the last batch has two and one that is none
        for number, run in enumerate(RUNS):
            order = DATASET.subset("train")[epoch_order(run.seed, epoch, 20)]
            assert graphs[:, number].flatten()[:20].equal(order)
            assert graphs[-1, number, 2] == 24
    # what was made ahead while the device was busy is what would be made
    engine.train_epoch(0)
    for epoch in range(3):
        assert engine.graphs(epoch).equal(make_engine(RUNS, DATASET).graphs(epoch))


def test_batches_that_do_not_fit_the_first_shape(monkeypatch):
    # the largest graphs are rare: with three graphs in a batch some later epoch needs more rows than the first did
    monkeypatch.setattr(lockstep_engine, "_MARGIN", 1.0)
    monkeypatch.setattr(lockstep_engine, "_MULTIPLE", 1)
    runs = [replace(run, epochs=6) for run in RUNS]
    engine = make_engine(runs, DATASET)
    lengths, losses = [engine._step.length], []
    for epoch in range(6):
        losses.append(engine.train_epoch(epoch).loss)
        lengths.append(engine._step.length)
    assert lengths[-1] > lengths[1] == lengths[0]  # it did happen
    assert_eager(engine, losses)
    for number, run in enumerate(runs):
        network, _ = train_eagerly(run, DATASET, epochs=6)
        torch.testing.assert_close(engine.outputs_of("val")[0][number], evaluate(network, run, DATASET, "val"))


def test_what_follows_the_weights_is_taken_back_with_them():
    # or the first step after a capture would read weights of low precision that the warm-up has moved
    engine = make_engine([replace(run, precision="bf16") for run in RUNS], DATASET)
    for captured in engine._captured.values():
        assert any(each is engine.networks.parameters.used for each in captured._state)


def test_evaluation_before_and_after_the_shape_grows(monkeypatch):
    monkeypatch.setattr(lockstep_engine, "_MARGIN", 1.0)
    engine = make_engine(RUNS, DATASET)
    first = engine.outputs_of("val")[0].clone()
    engine._make_step(400, [400])
    assert engine.outputs_of("val")[0].equal(first)
    engine.train_epoch(0)
    assert not engine.outputs_of("val")[0].equal(first)


def test_a_few_lengths_serve_all_steps(monkeypatch):
    monkeypatch.setattr(lockstep_engine, "_MULTIPLE", 4)
    engine = make_engine(RUNS, DATASET)
    graphs = engine.graphs(0)
    nodes = torch.tensor([DATASET.graph(number).num_nodes for number in range(24)] + [0])
    needed = nodes[graphs].sum(-1).amax(1)
    lengths = list(engine._captured)
    assert lengths == sorted(lengths)
    assert all(length % 4 == 0 for length in lengths)
    assert lengths[-1] >= 1.05 * needed.max() - 1
    chosen = [
        next(length for length, each in engine._captured.items() if each is step) for step in engine.lay_ready(graphs)
    ]
    assert [min(length for length in lengths if length >= nodes) for nodes in needed.tolist()] == chosen
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("steps", [1, 3])
def test_an_epoch_laid_ready_in_pieces(monkeypatch, steps):
    monkeypatch.setattr(lockstep_engine, "_STEPS", steps)
    engine = make_engine(RUNS, DATASET)
    assert_eager(engine, [engine.train_epoch(epoch).loss for epoch in range(2)])


def test_rows_of_edges_make_smaller_pieces(monkeypatch):
    monkeypatch.setattr(lockstep_engine, "_EVALUATED", 1 << 11)
    for model in ("mrs-gcn", "mrs-gated-gcn"):
        engine = make_engine([replace(run, model=model) for run in RUNS], DATASET)
        engine.outputs_of("train")
        rows, _, _ = engine._folds["train"]
        # a piece has a whole number of graphs, of up to twice the mean size here
        largest = max(part.node.size(1) for part in rows) * len(RUNS) * engine._data.rows_a_node * RUN.width
        assert len(rows) > 1
        assert largest <= 2 * (1 << 11)
    assert engine._data.rows_a_node == engine._data.num_slots > 1


@pytest.mark.parametrize("limit", [{"_EVALUATED": 600}, {"_READ_OUT": 3}], ids=str)
def test_evaluation_in_pieces(monkeypatch, limit):
    whole = make_engine(RUNS, DATASET).outputs_of("train")
    for name, value in limit.items():
        monkeypatch.setattr(lockstep_engine, name, value)
    output, target = make_engine(RUNS, DATASET).outputs_of("train")
    torch.testing.assert_close(output, whole[0])
    assert output.shape == (2, 20, 1)
    assert target.equal(DATASET.y[DATASET.subset("train")].double())


@pytest.mark.parametrize("task", ["regression", "multilabel", "multiclass"])
def test_outputs_in_training_are_kept(task):
    dataset = replace(labelled(task) if task != "regression" else molecules(96), name="molecules")
    runs = [replace(run, lr=1e-30, batch_size=24) for run in RUNS]  # weights do not move
    engine = make_engine(runs, dataset)
    trained = engine.train_epoch(0)
    output, target = engine.outputs_of("train")
    for number, run in enumerate(runs):
        order = epoch_order(run.seed, 0, 80)
        expected = Task.of(dataset).score(output[number][order], target[order])
        assert trained.score[number] == pytest.approx(expected, rel=1e-12)
        if task != "regression":
            kept = engine._step.outputs[:, number].flatten(0, 1)[:80]  # steps of 24, 24, 24 and 8 graphs
            torch.testing.assert_close(kept, output[number][order])
    # the score of a regression is its loss
    assert (engine._step.outputs is None) == (task == "regression")


def test_steps_that_are_not_finite_are_named():
    engine = make_engine([replace(RUNS[0], lr=1e300), RUNS[1]], DATASET)
    found = engine.train_epoch(0)
    assert found.bad_step == [2, 0]
    assert [math.isfinite(loss) for loss in found.loss] == [False, True]


def test_measuring_takes_a_step_and_evaluates():
    engine = make_engine(RUNS, DATASET)
    before = engine.networks.parameters.flat.clone()
    engine.begin(0)
    engine.measure()
    assert not engine.networks.parameters.flat.equal(before)
