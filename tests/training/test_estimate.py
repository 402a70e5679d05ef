from dataclasses import replace

import pytest

from graphprism.datasets import molecules
from graphprism.training import Run, estimate
from graphprism.training import estimate as module_function
from tests.pairwise import quick
from tests.training.test_targets import WHOLE, ring

SMALL = Run(layers=2, width=8, epochs=50, batch_size=4, warmup=0)


def test_time_grows_with_epochs_and_memory_is_that_of_a_process():
    short, long = (estimate(replace(SMALL, epochs=epochs), molecules(60), accelerator="cpu") for epochs in (1, 5000))
    assert long.seconds > 5 * short.seconds
    assert long.peak_bytes > 50e6
    assert long.fits
    assert long.advice == ""


@pytest.mark.parametrize("task", quick(["multiclass", "binary", "link"], "link"))
def test_nodes_and_links(task):
    found = estimate(Run(**WHOLE), ring(task), accelerator="cpu")
    assert found.fits
    assert found.tried


def test_part_of_the_training_fold_stands_for_the_whole():
    from graphprism.training.estimate import _BATCHES, _part

    dataset = molecules(300)
    part, scale = _part(SMALL, dataset)
    assert part.subset("train").numel() == 4 * _BATCHES
    assert scale == dataset.subset("train").numel() / (4 * _BATCHES)
    assert part.subset("val").numel() == dataset.subset("val").numel()


def test_run_that_does_not_fit_is_not_tried_and_told_what_to_change(monkeypatch):
    import sys

    estimates = sys.modules["graphprism.training.estimate"]
    assert estimates.estimate is module_function
    monkeypatch.setattr(estimates, "free_memory", lambda device: 1.0)
    probed = []
    monkeypatch.setattr(
        estimates, "_probe", lambda run, *_: probed.append(run.width) or estimates._Probe(run.width * 1e6, 1, 1)
    )
    found = estimate(replace(SMALL, width=64), molecules(60), accelerator="cpu")
    assert probed == [8, 16]
    assert not found.tried
    assert not found.fits
    assert "try --batch-size 1, or --width 1, or --layers 1" in found.advice
    assert found.peak_bytes == pytest.approx(64e6 + found.free_bytes - 1, rel=0.1)


def test_estimate_times_the_engine_that_train_takes(monkeypatch):
    import sys

    estimates = sys.modules["graphprism.training.estimate"]
    made = []
    for name in ("EagerEngine", "LockstepEngine"):
        original = getattr(estimates, name)
        monkeypatch.setattr(estimates, name, lambda *args, make=original: made.append(make.__name__) or make(*args))
    estimate(SMALL, molecules(60), accelerator="cpu")
    # as on a GPU, where train captures the step
    monkeypatch.setattr(estimates, "engine_of", lambda run, dataset, engine, device: "lockstep")
    found = estimate(SMALL, molecules(60), accelerator="cpu")
    assert made == ["EagerEngine", "LockstepEngine"]
    assert found.fits
    assert found.seconds > found.epoch_seconds > 0
