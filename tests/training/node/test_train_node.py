import pytest
import torch

from graphprism.results import RunResult
from graphprism.training.node import build_node_model, leak_audit, train_node
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_progress import NodeProgress
from graphprism.training.node.node_run import NODE_MODELS
from graphprism.training.session import Diverged
from tests.training.node.node_sets import numbers, small_run, small_set


def train(run, **options):
    return train_node(run, small_set(), accelerator="cpu", **options)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_the_loop_that_anyone_would_write(decay):
    run, dataset = small_run(dropout=0.0, fold=1, weight_decay=decay), small_set()
    data = NodeData.prepare(run, dataset, torch.device("cpu"))
    model = build_node_model(run, dataset).double()
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


@pytest.mark.parametrize("model", NODE_MODELS)
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
    assert result.parameters == sum(weight.numel() for weight in build_node_model(run, small_set()).parameters())
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
    progress = NodeProgress(small_run(**options))
    for accuracy in accuracies:
        progress.add((1.0, 0.0, accuracy, 0.0), 0.0)
    return progress


def test_the_first_of_equal_epochs_is_best_and_patience_counts_from_it():
    progress = progress_of([10, 30, 30, 20], patience=2)
    assert (progress.best_epoch, progress.epoch, progress.finished) == (2, 4, True)
    assert not progress_of([10, 30, 30], patience=2).finished
    assert progress_of([10, 30, 30, 40], patience=2).best_epoch == 4
    assert progress_of([10, 30, 30, 20, 90], patience=2).epoch == 4  # came too late


def test_a_first_epoch_of_zero_is_the_best_so_far():
    assert progress_of([0.0, 0.0]).best_epoch == 1


def test_it_stops_at_the_last_epoch():
    assert progress_of([1, 2, 3], epochs=3).finished
    assert not progress_of([1, 2], epochs=3).finished


def test_a_loss_that_is_not_finite():
    run = small_run(lr=1e200, normalize=False)
    with pytest.raises(Diverged, match=r"the loss of mrs-dir-gcn .* was not a finite number in epoch \d") as caught:
        train(run)
    assert caught.value.result.status == "diverged"
    assert caught.value.result.run == run.to_dict()
    assert caught.value.epoch == len(caught.value.result.history["val"]) < 12


def test_bf16_stays_near_float32():
    exact = train(small_run(precision="float32", dropout=0.0)).history["train_loss"]
    rounded = train(small_run(precision="bf16", dropout=0.0)).history["train_loss"]
    assert rounded == pytest.approx(exact, rel=0.05)
    assert rounded != exact


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match=r'`accelerator` must be "auto", "cpu" or "cuda", got \'tpu\''):
        train_node(small_run(), small_set(), accelerator="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="torch finds no CUDA device"):
            train_node(small_run(), small_set(), accelerator="cuda")
