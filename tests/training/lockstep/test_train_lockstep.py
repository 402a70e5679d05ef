from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, load_best, train, train_lockstep
from graphprism.training.train import lockstep_key, most_neighbours
from tests.datasets.small_sets import three_graphs
from tests.pairwise import IS_SLOW, in_turn
from tests.training.lockstep.eager import evaluate
from tests.training.test_train import labelled

# 80 training graphs: batches of 24, 24, 24 and 8.
DATASET = molecules(96)
RUN = Run(layers=2, width=10, epochs=3, warmup=1, batch_size=24, precision="float64")
RUNS = [replace(RUN, seed=seed, lr=lr) for seed, lr in ((0, 1e-2), (1, 3e-3), (2, 2e-2))]
SCORES = ("lr", "train_loss", "train", "val", "test")


def assert_same_history(ours, theirs, rel=1e-9):
    for name in SCORES:
        assert ours.history[name] == pytest.approx(theirs.history[name], rel=rel), name
    assert ours.best_epoch == theirs.best_epoch


def with_means():
    return replace(DATASET, name="peptides-func")


def with_features():
    """Numbers in place of types of nodes, several targets."""
    x = torch.randn(DATASET.x.size(0), 3, generator=torch.Generator().manual_seed(0))
    return replace(DATASET, x=x, node_types=(), y=torch.cat([DATASET.y, DATASET.y.square()], dim=1))


CASES = {
    "regression": (RUN, DATASET),
    "several labels": (replace(RUN, model="mrs-sage"), labelled("multilabel")),
    "classes": (replace(RUN, model="gin", residual=True), labelled("multiclass")),
    "read out by means": (replace(RUN, model="mrs-gat", pe=2), with_means()),
    "features of nodes": (replace(RUN, weight_decay=0.1, schedule="constant"), with_features()),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_runs_one_after_another(name):
    run, dataset = CASES[name]
    runs = [replace(run, seed=each.seed, lr=each.lr) for each in RUNS]
    results = train_lockstep(runs, dataset, accelerator="cpu")
    for one, result in zip(runs, results, strict=True):
        expected = train(one, dataset, accelerator="cpu")
        assert_same_history(result, expected)
        assert result.larger_is_better == expected.larger_is_better
        assert (result.parameters, result.width) == (expected.parameters, expected.width)


def test_the_results_are_complete():
    seen = []
    results = train_lockstep(RUNS, DATASET, accelerator="cpu", on_epoch=seen.append)
    eager = train(RUNS[0], DATASET, accelerator="cpu")
    for run, result in zip(RUNS, results, strict=True):
        assert (result.key, result.run, result.status) == (run.key, run.to_dict(), "finished")
        assert (result.metric, result.larger_is_better, result.engine, result.extra) == ("mae", False, "lockstep", {})
        assert (result.width, result.parameters) == (10, eager.parameters)
        assert result.history.keys() == {*SCORES, "seconds"}
        assert result.hardware == {**eager.hardware, "runs_at_once": 3}
        assert result.versions == eager.versions
        assert result.finished_at.endswith("+00:00")
        assert result.seconds == pytest.approx(sum(result.history["seconds"]))
        # four steps an epoch, and each run has a third of the time
        assert 0 < 1e-3 * result.step_ms * 3 * 4 < 2 * result.seconds
        assert type(result).from_json(result.to_json()) == result
    assert [(report.run, report.epoch) for report in seen] == [(run, epoch) for epoch in range(1, 4) for run in RUNS]
    for report in seen:
        history = results[RUNS.index(report.run)].history
        assert all(getattr(report, name) == history[name][report.epoch - 1] for name in history)
        assert report.epochs == 3
        assert report.steps_per_second > 0
        assert (report.remaining_seconds == 0) == (report.epoch == 3)


def test_the_time_is_shared():
    seen = []
    train_lockstep(RUNS, DATASET, accelerator="cpu", on_epoch=seen.append)
    first = [report for report in seen if report.epoch == 1]
    # what is left of all runs together, at the pace of the first epoch of all
    assert [report.remaining_seconds for report in first] == pytest.approx([2 * 3 * first[0].seconds] * 3)
    assert len({report.seconds for report in first}) == 1


def test_a_width_out_of_a_budget():
    run = replace(RUN, width=None, budget=2000, epochs=1)
    (result,) = train_lockstep([run], DATASET, accelerator="cpu")
    expected = train(run, DATASET, accelerator="cpu")
    assert (result.width, result.parameters) == (expected.width, expected.parameters)
    assert result.width % 16
    assert_same_history(result, expected)


@pytest.mark.parametrize("at_once", [2, 1])
def test_in_groups_the_same_as_all_at_once(at_once):
    runs = [replace(RUN, seed=seed, epochs=2) for seed in range(5)]
    together = train_lockstep(runs, DATASET, accelerator="cpu")
    apart = train_lockstep(runs, DATASET, accelerator="cpu", at_once=at_once)
    assert [result.key for result in apart] == [run.key for run in runs]
    for one, other in zip(together, apart, strict=True):
        assert_same_history(one, other, rel=1e-12)
    assert [result.hardware["runs_at_once"] for result in together] == [5] * 5
    assert [result.hardware["runs_at_once"] for result in apart] == {2: [2, 2, 2, 2, 1], 1: [1] * 5}[at_once]


def test_the_same_bits_twice_and_nothing_global_is_changed():
    runs = [replace(run, precision="float32", dropout=0.3) for run in RUNS]
    found = []
    for seed in range(2):
        torch.manual_seed(seed)
        before = torch.get_rng_state(), torch.get_float32_matmul_precision()
        results = train_lockstep(runs, DATASET, accelerator="cpu")
        found.append([[result.history[name] for name in SCORES] for result in results])
        assert torch.get_rng_state().equal(before[0])
        assert torch.get_float32_matmul_precision() == before[1]
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


@in_turn(
    model=["mrs-gin", "gat", "mrs-gated-gcn", "mrs-gine", *(["mrs-gcn"] if IS_SLOW else [])],
    precision=["float32", "bf16", "bf16", "bf16"],
)
def test_less_precision_is_near(precision, model):
    runs = [replace(run, model=model, epochs=2) for run in RUNS[:2]]
    exact = train_lockstep(runs, DATASET, accelerator="cpu")
    near = train_lockstep([replace(run, precision=precision) for run in runs], DATASET, accelerator="cpu")
    tolerance = {"float32": 1e-3, "bf16": 0.1}[precision]
    for one, other in zip(exact, near, strict=True):
        assert other.history["train_loss"] == pytest.approx(one.history["train_loss"], rel=tolerance)
        assert other.history["train_loss"] != one.history["train_loss"]


@pytest.mark.parametrize("change", [{}, {"norm": "batch"}, {"model": "mrs-gated-gcn"}], ids=str)
def test_the_best_network_is_kept(change, tmp_path):
    # a large rate, so that the best epoch is not the last
    runs = [
        replace(run, lr=lr, epochs=6, schedule="constant", start="independent", **change)
        for run, lr in zip(RUNS, (0.3, 0.05), strict=False)
    ]
    results = train_lockstep(runs, DATASET, accelerator="cpu", folder=tmp_path)
    assert min(result.best_epoch for result in results) < 6
    for run, result in zip(runs, results, strict=True):
        network = load_best(tmp_path, run, DATASET)
        for subset in ("val", "test"):
            output = evaluate(network, run, DATASET, subset)
            found = float((output - DATASET.batch(DATASET.subset(subset)).y).abs().mean())
            assert found == pytest.approx(result.history[subset][result.best_epoch - 1], rel=1e-10)


def test_a_set_without_validation_has_no_best_epoch():
    dataset = molecules(10)
    with pytest.warns(UserWarning, match="mae is not defined on the validation fold"):
        (result,) = train_lockstep([replace(RUN, epochs=1)], dataset, accelerator="cpu")
    assert dataset.subset("val").numel() == 0
    assert result.best_epoch is None
    assert result.history["val"][0] != result.history["val"][0]


def test_runs_that_differ_in_more_go_in_groups_of_their_own():
    assert len({lockstep_key(run) for run in RUNS} | {lockstep_key(replace(RUN, weight_decay=0.1))}) == 1
    changes = (
        {"layers": 3},
        {"epochs": 2},
        {"clip": 2.0},
        {"precision": "float32"},
        {"model": "gcn"},
        {"batch_size": 8},
    )
    others = [replace(RUN, **change) for change in changes]
    assert len({lockstep_key(run) for run in [RUN, *others]}) == 7
    runs = [RUNS[0], others[0], RUNS[1], others[1]]
    results = train_lockstep(runs, DATASET, accelerator="cpu")
    assert [result.key for result in results] == [run.key for run in runs]
    assert [result.hardware["runs_at_once"] for result in results] == [2, 1, 2, 1]
    for run, result in zip(runs, results, strict=True):
        assert_same_history(result, train(run, DATASET, accelerator="cpu"))


def star():
    """Graphs of which one has a node with 17 neighbours."""
    leaves, hub = torch.arange(1, 18), torch.zeros(17, dtype=torch.long)
    whole = [torch.stack([leaves, hub]), torch.stack([hub, leaves])]
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return replace(
        three_graphs(),
        x=torch.arange(24)[:, None] % 28,
        edge_index=torch.cat([ring, *whole, ring], dim=1),
        edge_attr=torch.ones(40, 1, dtype=torch.long),
        node_ptr=torch.tensor([0, 3, 21, 24]),
        edge_ptr=torch.tensor([0, 3, 37, 40]),
    )


def test_what_tables_are_not_for_is_trained_one_by_one(tmp_path):
    dataset = star()
    assert most_neighbours(dataset) == 17
    runs = [replace(RUN, seed=0), replace(RUN, seed=1, lr=1e300, schedule="constant")]
    results = train_lockstep(runs, dataset, accelerator="cpu", folder=tmp_path)
    assert [(result.engine, result.status) for result in results] == [("eager", "finished"), ("eager", "diverged")]
    assert_same_history(results[0], train(runs[0], dataset, accelerator="cpu"))
    # a norm that would count the rows that fill up a batch
    runs = [RUNS[0], replace(RUNS[1], norm="layer")]
    results = train_lockstep(runs, DATASET, accelerator="cpu")
    assert [result.engine for result in results] == ["lockstep", "eager"]
    assert_same_history(results[1], train(runs[1], DATASET, accelerator="cpu"))


def test_most_neighbours():
    assert most_neighbours(DATASET) == 4
    assert most_neighbours(three_graphs()) == 1
    directed = replace(three_graphs(), edge_index=torch.tensor([[0, 1, 1, 1], [1, 0, 2, 0]]))
    assert most_neighbours(directed) == 2
    empty = replace(three_graphs(), edge_index=torch.empty(2, 0, dtype=torch.long), edge_ptr=torch.zeros(4).long())
    assert most_neighbours(empty) == 0


def test_bad_input():
    assert train_lockstep([], DATASET, accelerator="cpu") == []
    with pytest.raises(ValueError, match="`at_once` must be at least 1, got -1"):
        train_lockstep(RUNS, DATASET, accelerator="cpu", at_once=-1)
    with pytest.raises(ValueError, match=r"`dataset.metric` must be one of"):
        train_lockstep(RUNS, replace(DATASET, metric="msle"), accelerator="cpu")
    with pytest.raises(ValueError, match=r"`batch_size` must be None \(the whole graph\) for targets of nodes"):
        train_lockstep(RUNS, replace(DATASET, level="node"), accelerator="cpu")


def test_a_run_that_is_given_twice_is_trained_once(tmp_path):
    epochs = []
    first, second = train_lockstep([RUN, RUN], DATASET, folder=tmp_path, accelerator="cpu", on_epoch=epochs.append)
    assert first is second
    assert len(epochs) == RUN.epochs
