import math
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import EpochReport, Run, Task, train
from tests.training.by_hand import train_by_hand
from tests.training.checkpoints import parts_of

# 80 training graphs: batches of 24, 24, 24 and 8, so that a mean of means would show.
DATASET = molecules(96)
RUN = Run(layers=2, width=6, epochs=3, warmup=1, batch_size=24, precision="float64", lr=0.02)


def labelled(task):
    """The same graphs with labels or classes in place of numbers."""
    above = DATASET.y > torch.tensor([[-0.5, 0.0, 0.5]])
    if task == "multilabel":
        return replace(DATASET, task="multilabel", metric="ap", y=above.float())
    return replace(DATASET, task="multiclass", metric="accuracy", y=above.sum(1))


CASES = {
    "regression": (RUN, DATASET),
    "clipped hard": (replace(RUN, clip=0.01, residual=True), DATASET),
    "not clipped, with decay": (replace(RUN, clip=0.0, weight_decay=0.1, model="mrs-sage"), DATASET),
    "adam, attention": (replace(RUN, optimizer="adam", weight_decay=0.01, model="mrs-gat", jk="max"), DATASET),
    "gates and batch norm": (replace(RUN, model="mrs-gated-gcn"), DATASET),
    "several labels": (replace(RUN, norm="batch"), labelled("multilabel")),
    "classes": (replace(RUN, model="mrs-gin"), labelled("multiclass")),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_a_loop_written_by_hand(name, tmp_path):
    run, dataset = CASES[name]
    result = train(run, dataset, folder=tmp_path, accelerator="cpu")
    network, losses, outputs = train_by_hand(run, dataset)
    sizes = [24, 24, 24, 8]
    means = [sum(n * loss for n, loss in zip(sizes, epoch, strict=True)) / 80 for epoch in losses]
    assert result.history["train_loss"] == pytest.approx(means, rel=1e-9)
    torch.testing.assert_close(
        parts_of(tmp_path, run)["state"]["model"], dict(network.state_dict()), rtol=1e-6, atol=1e-6
    )
    for subset in ("val", "test"):
        target = dataset.batch(dataset.subset(subset)).y
        expected = [Task.of(dataset).score(output[subset], target) for output in outputs]
        assert result.history[subset] == pytest.approx(expected, rel=1e-7)


def test_the_result_is_complete():
    seen: list[EpochReport] = []
    result = train(RUN, DATASET, accelerator="cpu", on_epoch=seen.append)
    assert (result.key, result.run, result.status) == (RUN.key, RUN.to_dict(), "finished")
    assert (result.metric, result.larger_is_better, result.engine, result.width) == ("mae", False, "eager", 6)
    assert result.history.keys() == {"lr", "train_loss", "train", "val", "test", "seconds"}
    assert result.history["train"] == pytest.approx(result.history["train_loss"], rel=1e-12)
    assert result.best_epoch == 1 + result.history["val"].index(min(result.history["val"]))
    assert result.hardware == {"device": "cpu", "name": result.hardware["name"], "count": 1, "runs_at_once": 1}
    assert result.hardware["name"]
    assert {"torch", "lightning", "torchmetrics", "graphprism"} <= result.versions.keys()
    assert result.finished_at.endswith("+00:00")
    assert result.seconds == pytest.approx(sum(result.history["seconds"]))
    assert 0 < result.step_ms < 1e3 * result.seconds
    assert type(result).from_json(result.to_json()) == result
    assert [report.epoch for report in seen] == [1, 2, 3]
    for name in result.history:
        assert [getattr(report, name) for report in seen] == result.history[name]
    assert seen[-1].remaining_seconds == 0.0
    assert all(report.run is RUN and report.epochs == 3 and report.steps_per_second > 0 for report in seen)


def test_best_epoch_is_the_largest_where_more_is_better():
    result = train(replace(RUN, epochs=5), labelled("multiclass"), accelerator="cpu")
    assert result.larger_is_better
    assert result.best_epoch == 1 + result.history["val"].index(max(result.history["val"]))


def test_nothing_global_is_changed():
    torch.manual_seed(5)
    before = torch.get_rng_state(), torch.get_float32_matmul_precision(), torch.get_default_dtype()
    train(replace(RUN, dropout=0.5), DATASET, accelerator="cpu")
    after = torch.get_rng_state(), torch.get_float32_matmul_precision(), torch.get_default_dtype()
    assert before[0].equal(after[0])
    assert before[1:] == after[1:]


def test_seeds_differ_and_the_state_outside_does_not_matter():
    run = replace(RUN, dropout=0.3, epochs=2)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(len(found))
        found.append(train(replace(run, seed=seed), DATASET, accelerator="cpu").history["val"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_less_precision_is_near(precision):
    exact = train(RUN, DATASET, accelerator="cpu").history
    found = train(replace(RUN, precision=precision), DATASET, accelerator="cpu").history
    tolerance = {"float32": 1e-4, "bf16": 0.1}[precision]
    for name in ("train_loss", "val", "test"):
        assert found[name] == pytest.approx(exact[name], rel=tolerance)
        assert found[name] != exact[name]


def test_a_set_without_validation_has_no_best_epoch():
    dataset = molecules(10)
    with pytest.warns(UserWarning, match="mae is not defined on the validation fold"):
        result = train(replace(RUN, epochs=1), dataset, accelerator="cpu")
    assert dataset.subset("val").numel() == 0
    assert result.best_epoch is None
    assert math.isnan(result.history["val"][0])
