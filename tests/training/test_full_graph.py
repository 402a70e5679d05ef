import math
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import leak_audit
from graphprism.results import RunResult
from graphprism.training import Diverged, build_model, full_graph, load_best, train_lockstep
from graphprism.training import train as train_run
from graphprism.training.engine import RunState
from graphprism.training.full_graph import FullGraphEngine, FullGraphStep
from graphprism.training.node_data import NodeData, input_dropout
from graphprism.training.session import Progress
from graphprism.training.train import _finish
from tests.pairwise import in_turn, quick
from tests.training.node_sets import NODE_MODELS, numbers, small_run, small_set, sparse_set

CPU = torch.device("cpu")
SETS = pytest.mark.parametrize("make", [small_set, sparse_set])


def train(run, dataset=None, **options):
    return train_run(run, dataset or small_set(), accelerator="cpu", **options)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_the_loop_that_anyone_would_write(decay):
    run, dataset = small_run(dropout=0.0, fold=1, weight_decay=decay), small_set()
    data = NodeData.prepare(run, dataset, torch.device("cpu"))
    model = build_model(run, dataset).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=run.lr, weight_decay=decay)
    train_mask, val_mask, test_mask = (mask[:, 1] for mask in (dataset.train_mask, dataset.val_mask, dataset.test_mask))
    expected = {"lr": [], "train_loss": [], "train": [], "val": [], "test": []}
    for _ in range(run.epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data.x, data.adj)[train_mask], dataset.y[train_mask])
        loss.backward()
        optimizer.step()
        right = model(data.x, data.adj).argmax(1) == dataset.y
        expected["lr"].append(run.lr)
        expected["train_loss"].append(pytest.approx(loss.item(), rel=1e-9))
        for name, mask in (("train", train_mask), ("val", val_mask), ("test", test_mask)):
            expected[name].append(pytest.approx(100 * right[mask].double().mean().item()))
    assert numbers(train(run)) == expected


# each layer once, and each way to take relations
@pytest.mark.parametrize("model", quick(NODE_MODELS, *NODE_MODELS[::4]))
def test_every_model_learns(model):
    result = train(small_run(model=model, epochs=40, lr=0.05, jk="cat", alpha=0.5, normalize=False))
    assert result.history["train_loss"][-1] < 0.5 * result.history["train_loss"][0]
    assert result.history["train"][-1] > 80


def test_the_result_is_a_whole_line_of_the_ledger():
    run, audit = small_run(), leak_audit(small_set(), 0)
    result = train(run)
    assert (result.key, result.run, result.status) == (run.key, run.to_dict(), "finished")
    assert (result.metric, result.larger_is_better, result.engine) == ("accuracy", True, "eager")
    assert {len(column) for column in result.history.values()} == {12}
    assert set(result.history) == {"lr", "train_loss", "train", "val", "test", "seconds"}
    assert result.extra == {"lookup": 100 * audit.lookup, "majority": 100 * audit.majority}
    assert result.parameters == sum(weight.numel() for weight in build_model(run, small_set()).parameters())
    assert (result.width, result.hardware["runs_at_once"]) == (8, 1)
    assert result.seconds == pytest.approx(sum(result.history["seconds"]))
    assert result.step_ms > 0
    assert RunResult.from_json(result.to_json()).at_best("test") == result.at_best("test")


def test_the_same_run_gives_the_same_bits_and_another_seed_does_not():
    first = numbers(train(small_run(dropout=0.5)))
    torch.manual_seed(123)  # what others draw has no say
    assert numbers(train(small_run(dropout=0.5))) == first
    assert numbers(train(small_run(dropout=0.5, seed=1))) != first


def test_every_epoch_drops_something_else():
    # weights that hardly move: what differs is what was dropped
    losses = train(small_run(dropout=0.5, lr=1e-12)).history["train_loss"]
    assert len({round(loss, 6) for loss in losses}) == len(losses)


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    train(small_run(dropout=0.5))
    assert torch.equal(torch.get_rng_state(), before)


def test_reports_tell_of_every_epoch():
    reports = []
    result = train(small_run(patience=5), on_epoch=reports.append)
    assert [report.epoch for report in reports] == list(range(1, len(result.history["val"]) + 1))
    assert [report.val for report in reports] == result.history["val"]
    assert reports[-1].run == small_run(patience=5)
    assert reports[-1].remaining_seconds == 0
    assert all(report.steps_per_second > 0 for report in reports)


def progress_of(accuracies, **options):
    progress, run = Progress(larger_is_better=True), small_run(**options)
    for accuracy in accuracies:
        if progress.epochs_left(run) > 0:
            progress.add({"val": accuracy}, 0.0)
    return progress, progress.epochs_left(run)


def test_the_first_of_equal_epochs_is_best_and_patience_counts_from_it():
    progress, left = progress_of([10, 30, 30, 20], patience=2)
    assert (progress.best_epoch, progress.epoch, left) == (2, 4, 0)
    assert progress_of([10, 30, 30], patience=2)[1] == 1
    assert progress_of([10, 30, 30, 40], patience=2)[0].best_epoch == 4
    assert progress_of([10, 30, 30, 20, 90], patience=2)[0].epoch == 4  # came too late


def test_a_first_epoch_of_zero_is_the_best_so_far():
    assert progress_of([0.0, 0.0])[0].best_epoch == 1


def test_it_stops_at_the_last_epoch():
    assert progress_of([1, 2, 3], epochs=3)[1] == 0
    assert progress_of([1, 2], epochs=3)[1] == 1


@in_turn(patience=[None, 1, 2, 3, None], resumed=[False, True, False, True, True])
def test_step_chooses_the_best_epoch_of_the_session(patience, resumed):
    counts = torch.randint(0, 6, (30, 9), generator=torch.Generator().manual_seed(0)).tolist()
    stopped = 0
    for one in counts:
        run, progress = small_run(patience=patience, epochs=9), Progress(larger_is_better=True)
        step = make_step(run)
        for epoch, count in enumerate(one, 1):
            with torch.no_grad():
                for value in step.model.state_dict().values():
                    value.fill_(epoch)
            step._choose_best(torch.tensor(count), torch.tensor(True))
            # the session stops, the device may already have run ahead of it
            if progress.epochs_left(run) > 0:
                progress.add({"val": 100 * count / step.totals[1]}, 0.0)
            if resumed and epoch == 4:
                state = RunState(model=step.model.state_dict(), first={}, second={}, steps=0, best=step.best)
                step = make_step(run)
                step.load(state, progress.best_score, progress.since_best)
        stopped += progress.epoch < 9
        assert {float(value.unique()) for value in step.best.values()} == {float(progress.best_epoch)}
    assert bool(stopped) == (patience is not None)


def test_a_loss_that_is_not_finite():
    run = small_run(lr=1e200, normalize=False)
    with pytest.raises(Diverged, match=r"the loss of mrs-dir-gcn .* was not a finite number in epoch \d") as caught:
        train(run)
    assert caught.value.result.status == "diverged"
    assert caught.value.result.run == run.to_dict()
    assert caught.value.epoch == len(caught.value.result.history["val"]) + 1 < 12  # only whole epochs are told


def test_bf16_stays_near_float32():
    exact = train(small_run(precision="float32", dropout=0.0)).history["train_loss"]
    rounded = train(small_run(precision="bf16", dropout=0.0)).history["train_loss"]
    assert rounded == pytest.approx(exact, rel=0.05)
    assert rounded != exact


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match=r"`accelerator` must be one of auto, cpu, cuda, got 'tpu'"):
        train_run(small_run(), small_set(), accelerator="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="`devices` must be at most 0, the CUDA devices of this machine, got 1"):
            train_run(small_run(), small_set(), accelerator="gpu")


def make_step(run, dataset=None):
    dataset = dataset or small_set()
    return FullGraphStep(run, build_model(run, dataset), NodeData.prepare(run, dataset, CPU))


@pytest.mark.parametrize("together", [False, True])
def test_load_best_gives_the_weights_of_the_best_epoch(tmp_path, together):
    # so large a rate that the best epoch is not the last
    dataset, options = small_set(192), {"dropout": 0.5, "lr": 0.3}
    runs = [small_run(**options), small_run(model="dir-sage", normalize=False, fold=2, **options)]
    if together:
        results = _finish(FullGraphEngine(runs, dataset, CPU), dataset, tmp_path, None)
    else:
        results = [train(run, dataset, folder=tmp_path) for run in runs]
    for run, result in zip(runs, results, strict=True):
        assert 1 < result.best_epoch < run.epochs
        assert result.history["val"][-1] != max(result.history["val"])
        data = NodeData.prepare(run, dataset, CPU)
        network = load_best(tmp_path, run, dataset)
        assert not network.training
        right = network(data.x, data.adj).argmax(1) == data.y
        for number, name in enumerate(("train", "val", "test")):
            found = 100 * right[data.masks[number, :, run.fold]].double().mean().item()
            assert found == pytest.approx(result.history[name][result.best_epoch - 1])


def test_sparse_features_go_through_an_encoder():
    run = small_run(model="gcn", encode=True, jk=None, normalize=False, dropout=0.0)
    data = NodeData.prepare(run, sparse_set(), torch.device("cpu"))
    assert data.x.layout == torch.sparse_csr
    network = build_model(run, sparse_set()).double()
    outputs = []
    for x in (data.x, data.x.to_dense()):
        network.zero_grad()
        out = network(x, data.adj)
        out.square().sum().backward()
        outputs.append((out, network.encoder.weight.grad.clone()))
    torch.testing.assert_close(outputs[0], outputs[1])


@SETS
@pytest.mark.parametrize("model", ["mlp", "gcn", "mrs-dir-gcn", "mrs-sage", "mrs-gat"])
def test_the_first_layer_hears_what_is_left(make, model):
    # one layer that is the output: nothing else is dropped
    run = small_run(model=model, input_dropout=True, dropout=0.5, layers=1, jk=None)
    data = NodeData.prepare(run, make(), CPU)
    step = FullGraphStep(run, build_model(run, make()), data)
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
def test_every_epoch_drops_other_input_features(make):
    # weights that hardly move: losses differ by what was dropped
    history = train(small_run(input_dropout=True, dropout=0.5, layers=1, jk=None, lr=1e-12), make()).history
    assert len({round(loss, 6) for loss in history["train_loss"]}) == 12


def test_half_precision_with_dropped_features():
    exact, rounded = (
        train(small_run(input_dropout=True, dropout=0.5, layers=1, jk=None, precision=name))
        for name in ("float32", "bf16")
    )
    assert rounded.history["train_loss"] == pytest.approx(exact.history["train_loss"], rel=0.05)


OPTIONS = [
    {},
    {"fold": 1},
    {"fold": 2, "seed": 5, "dropout": 0.5},
    {"lr": 0.1, "weight_decay": 0.01},
    {"patience": 2, "lr": 0.1},
    {"model": "dir-gcn", "layers": 3},
    {"model": "mlp", "jk": None},
    {"lr": 1e200, "normalize": False},
]


@pytest.fixture(scope="module")
def together():
    runs = [small_run(**options) for options in OPTIONS]
    return _finish(FullGraphEngine(runs, small_set(), CPU), small_set(), None, None)


@pytest.mark.parametrize("number", range(len(OPTIONS) - 1))
def test_each_gives_what_it_gives_alone(together, number):
    alone = train(small_run(**OPTIONS[number]))
    assert numbers(together[number]) == numbers(alone)
    assert together[number].best_epoch == alone.best_epoch
    assert together[number].extra == alone.extra


def test_results_stand_in_the_order_of_the_runs(together):
    assert [result.key for result in together] == [small_run(**options).key for options in OPTIONS]
    assert {result.engine for result in together} == {"lockstep"}
    assert {result.hardware["runs_at_once"] for result in together} == {len(OPTIONS)}


def test_one_that_ends_early_leaves_the_others_be(together):
    lengths = [len(result.history["val"]) for result in together]
    assert lengths[4] < 12
    assert lengths[-1] < 12
    assert set(lengths[:4]) == {12}
    assert [result.status for result in together] == ["finished"] * 7 + ["diverged"]


def test_no_runs_give_no_results():
    assert train_lockstep([], small_set(), accelerator="cpu") == []


def test_more_runs_than_fit_at_once(monkeypatch):
    runs = [small_run(epochs=2, seed=seed) for seed in range(5)]
    whole = train_lockstep(runs, small_set(), accelerator="cpu")
    monkeypatch.setattr(full_graph, "_MOST_RUNS", 2)
    waves = train_lockstep(runs, small_set(), accelerator="cpu")
    assert [numbers(result) for result in waves] == [numbers(result) for result in whole]
    assert [result.hardware["runs_at_once"] for result in waves] == [2, 2, 2, 2, 1]
    # a device with room for one and a half
    left = iter([100.0, 60.0] * 5)
    monkeypatch.setattr(full_graph, "_free_bytes", lambda device: next(left))
    waves = train_lockstep(runs, small_set(), accelerator="cpu")
    assert [result.hardware["runs_at_once"] for result in waves] == [1] * 5


def test_at_once_is_the_most(together):
    runs = [small_run(**options) for options in OPTIONS[:4]]
    results = train_lockstep(runs, small_set(), accelerator="cpu", at_once=2)
    assert [result.hardware["runs_at_once"] for result in results] == [2, 2, 2, 2]
    assert [numbers(result) for result in results] == [numbers(result) for result in together[:4]]


def test_runs_with_one_lockstep_key_go_together(together):
    results = train_lockstep([small_run(**options) for options in OPTIONS], small_set(), accelerator="cpu")
    # folds, seeds, rates and dropout; then runs with another patience, model or form
    assert [result.hardware["runs_at_once"] for result in results] == [4] * 4 + [1] * 4
    assert [numbers(result) for result in results] == [numbers(result) for result in together]


def test_schedule_and_clip_of_a_run():
    run = small_run(schedule="cosine", warmup=2, clip=0.1, dropout=0.0, lr=0.05)
    rates = train(run).history["lr"]
    assert rates[2] == 0.05
    assert rates[0] < rates[1] < rates[2] > rates[3] > rates[-1] > 0
    assert numbers(train(run)) != numbers(train(small_run(schedule="cosine", warmup=2, dropout=0.0, lr=0.05)))


def test_runs_with_other_numbers_of_epochs_side_by_side():
    runs = [small_run(epochs=3), small_run(epochs=5)]
    results = _finish(FullGraphEngine(runs, small_set(), CPU), small_set(), None, None)
    for run, result in zip(runs, results, strict=True):
        assert numbers(result) == numbers(train(run))


def test_engine_says_nothing_of_runs_that_are_not_active():
    engine = FullGraphEngine([small_run(), small_run(fold=1)], small_set(), CPU)
    trained = engine.train_epoch(0, [False, True])
    assert math.isnan(trained.loss[0])
    assert math.isfinite(trained.loss[1])
    assert engine.evaluate("val")[1] == [False, True]
    assert engine.state(0)["best"] is None
    assert engine.state(0)["steps"] == 0
    assert engine.state(1)["steps"] == 1
