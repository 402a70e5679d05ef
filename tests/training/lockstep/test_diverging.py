from dataclasses import replace

import pytest

from graphprism.datasets import molecules
from graphprism.training import Diverged, Run, load_best, train, train_lockstep
from tests.pairwise import quick
from tests.training.test_train import labelled

DATASET = molecules(60)
RUN = Run(layers=3, width=6, epochs=4, warmup=1, batch_size=16)
SCORES = ("lr", "train_loss", "train", "val", "test")


def grid(lr):
    """Three runs, of which the second has the learning rate."""
    return [replace(RUN, seed=0), replace(RUN, seed=1, lr=lr), replace(RUN, seed=2)]


def numbers(result):
    return [result.history[name] for name in SCORES]


CHANGES = [{}, {"norm": "batch", "model": "mrs-gated-gcn"}, {"model": "gat"}]


@pytest.mark.parametrize("change", quick(CHANGES, CHANGES[1]), ids=str)
def test_the_others_have_the_bits_of_a_grid_in_which_all_is_well(change):
    lost, well = (train_lockstep([replace(run, **change) for run in grid(lr)], DATASET, accelerator="cpu")
                  for lr in (1e30, 1e-3))  # fmt: skip
    assert [result.status for result in well] == ["finished"] * 3
    assert [result.status for result in lost] == ["finished", "diverged", "finished"]
    for number in (0, 2):
        assert numbers(lost[number]) == numbers(well[number])
        assert lost[number].best_epoch == well[number].best_epoch
        assert lost[number].extra == {}
    assert lost[1].extra["diverged_epoch"] == 1
    assert lost[1].extra["diverged_step"] >= 2
    assert lost[1].history == {name: [] for name in (*SCORES, "seconds")}
    assert (lost[1].best_epoch, lost[1].step_ms, lost[1].seconds) == (None, None, 0)
    assert type(lost[1]).from_json(lost[1].to_json()) == lost[1]


def alone(run):
    """The result of a run that is trained by itself, and where it diverged."""
    try:
        return train(run, DATASET, accelerator="cpu"), {}
    except Diverged as error:
        return error.result, {"diverged_epoch": error.epoch, "diverged_step": error.step}


@pytest.mark.parametrize(
    ("precision", "lr", "epoch"),
    [
        ("float32", 1e30, 1),
        ("float32", 1e12, 2),
        ("float32", 1e2, None),
        ("float64", 1e100, 1),
        ("float64", 1e30, None),
    ],
)
def test_the_moment_is_that_of_the_run_alone(precision, lr, epoch):
    run, seen = replace(RUN, lr=lr, precision=precision), []
    (result,) = train_lockstep([run], DATASET, accelerator="cpu", on_epoch=seen.append)
    expected, extra = alone(run)
    assert extra.get("diverged_epoch") == epoch
    assert (result.status, result.extra) == (expected.status, extra)
    assert result.best_epoch == expected.best_epoch
    epochs = len(expected.history["val"])
    assert {len(values) for values in result.history.values()} == {epochs}
    assert [report.epoch for report in seen] == list(range(1, 1 + epochs))


def test_what_was_good_before_is_kept(tmp_path):
    # the first epoch has a millionth of the rate, the second all of it
    run = replace(RUN, lr=1e12)
    (result,) = train_lockstep([run], DATASET, accelerator="cpu", folder=tmp_path)
    assert (result.status, result.extra["diverged_epoch"], result.best_epoch) == ("diverged", 2, 1)
    assert len(result.history["val"]) == 1
    network = load_best(tmp_path, run, DATASET)
    assert all(weight.isfinite().all() for weight in network.parameters())
    # called again it is still lost
    (again,) = train_lockstep([run], DATASET, accelerator="cpu", folder=tmp_path)
    assert (again.status, again.extra, again.history) == (result.status, result.extra, result.history)


@pytest.mark.parametrize("task", ["regression", "multilabel", "multiclass"])
def test_the_last_step_of_all_may_be_the_one(task):
    dataset = molecules(96) if task == "regression" else labelled(task)
    run = replace(RUN, lr=1e300, epochs=1, warmup=0, batch_size=100, clip=0.0)  # one step
    results = train_lockstep([replace(run, lr=1e-3), run], dataset, accelerator="cpu")
    assert [result.status for result in results] == ["finished", "diverged"]
    assert results[1].extra == {"diverged_epoch": 1, "diverged_step": 1}
    with pytest.raises(Diverged, match="epoch 1, step 1"):
        train(run, dataset, accelerator="cpu")
