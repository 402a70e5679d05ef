import pickle
from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Diverged, Run, train
from graphprism.training.eager import EagerEngine
from tests.training.checkpoints import parts_of

DATASET = molecules(60)
RUN = Run(layers=2, width=6, epochs=4, warmup=1, batch_size=16, lr=1e30)


def diverge(run, folder=None):
    with pytest.raises(Diverged) as caught:
        train(run, DATASET, folder=folder, accelerator="cpu")
    return caught.value


def test_too_large_a_learning_rate_is_said():
    error = diverge(RUN)
    assert (error.epoch, error.checkpoint, error.run) == (1, None, RUN)
    assert error.step >= 2
    assert str(error) == (
        f"the loss of {RUN.title} was not a finite number in epoch 1, step {error.step}; "
        "no checkpoint was written; try a smaller learning rate than 1e+30"
    )
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.step) == (str(error), error.step)


def test_the_epoch_before_is_kept(tmp_path, monkeypatch):
    run = replace(RUN, lr=1e-3)
    real = EagerEngine._step

    def step(self, batch, output):
        steps.append(real(self, batch, output))
        return steps[-1] * float("nan") if len(steps) == 4 * 2 + 3 else steps[-1]

    steps: list[torch.Tensor] = []
    monkeypatch.setattr(EagerEngine, "_step", step)
    error = diverge(run, tmp_path)
    assert (error.epoch, error.step, error.checkpoint) == (3, 3, tmp_path / run.key / "checkpoint.pt")
    assert f"epoch 2 is in {error.checkpoint}" in str(error)
    assert len(parts_of(tmp_path, run)["history"]["val"]) == 2
    assert (error.result.status, len(error.result.history["val"])) == ("diverged", 2)


def test_the_last_step_of_all_may_be_the_one(monkeypatch):
    def step(self, batch, output):
        found = real(self, batch, output)
        if batch.rows.stop == 50:
            with torch.no_grad():
                self.network.head.bias.fill_(float("inf"))
        return found

    real = EagerEngine._step
    monkeypatch.setattr(EagerEngine, "_step", step)
    error = diverge(replace(RUN, lr=1e-3, epochs=1))
    assert (error.epoch, error.step) == (1, 4)
