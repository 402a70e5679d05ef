"""The engine of one run: a captured step on a GPU wherever lockstep takes the run."""

from dataclasses import replace

import pytest
import torch

import graphprism.training
from graphprism.cli.run_training import placement_of
from graphprism.datasets import molecules
from graphprism.experiments import trainer_for
from graphprism.training import Diverged, Run, train
from graphprism.training.train import engine_of

RUN = Run(layers=2, width=8, epochs=2, warmup=0, precision="float64")


@pytest.mark.parametrize("model", ["gcn", "mrs-gcn", "mrs-gat", "mrs-gin", "mrs-gated-gcn"])
def test_one_gpu_gets_lockstep(model):
    run = replace(RUN, model=model)
    assert engine_of(run, molecules(40), "auto", "cuda") == "lockstep"
    assert engine_of(run, molecules(40), "auto", "cpu") == "eager"
    assert engine_of(run, molecules(40), "auto", "cuda", processes=2) == "eager"
    assert engine_of(run, molecules(40), "eager", "cuda") == "eager"
    assert engine_of(run, molecules(40), "lockstep", "cpu") == "lockstep"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"norm": "layer"}, "lockstep knows batch norm alone, not layer"),
        ({"jk": "lstm"}, "jumping knowledge by an LSTM"),
    ],
)
def test_run_that_lockstep_does_not_take_is_eager(options, reason):
    run = replace(RUN, **options)
    assert engine_of(run, molecules(40), "auto", "cuda") == "eager"
    with pytest.raises(ValueError, match=f"`engine` must be auto or eager, got 'lockstep': .*{reason}"):
        train(run, molecules(40), accelerator="cpu", engine="lockstep")
    with pytest.raises(ValueError, match="2 processes share the run"):
        engine_of(RUN, molecules(40), "lockstep", "cuda", processes=2)


def test_train_by_either_engine(tmp_path):
    eager = train(RUN, molecules(60), accelerator="cpu")
    lockstep = train(RUN, molecules(60), accelerator="cpu", engine="lockstep", folder=tmp_path)
    assert (eager.engine, lockstep.engine) == ("eager", "lockstep")
    for name in ("train_loss", "val", "test"):
        assert lockstep.history[name] == pytest.approx(eager.history[name], rel=1e-9)
    # a checkpoint of one engine is one of the other
    assert train(RUN, molecules(60), accelerator="cpu", folder=tmp_path).history["val"] == lockstep.history["val"]


def test_lockstep_run_that_diverges_raises():
    with pytest.raises(Diverged):
        train(replace(RUN, lr=1e30, clip=0, precision="float32"), molecules(60), accelerator="cpu", engine="lockstep")


def test_train_refuses_another_engine():
    with pytest.raises(ValueError, match=r"`engine` must be one of \['auto', 'eager', 'lockstep'\], got 'fast'"):
        train(RUN, molecules(40), accelerator="cpu", engine="fast")


def test_command_gives_one_run_to_lockstep_on_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    placement = placement_of({"accelerator": "auto", "engine": "auto", "devices": 1, "nodes": 1})
    trainer = trainer_for([RUN], placement.engine, placement.accelerator)
    calls = []
    monkeypatch.setattr(graphprism.training, "train_lockstep", lambda runs, *_, **__: calls.append(runs) or [])
    for group in trainer.groups([RUN]):
        trainer.train(group, molecules(40), tmp_path, print)
    assert calls == [[RUN]]


@pytest.mark.gpu
def test_one_run_on_a_gpu_is_captured(monkeypatch):
    replays = []
    monkeypatch.setattr(
        torch.cuda, "CUDAGraph", type("Counted", (torch.cuda.CUDAGraph,), {"replay": _counted_replay(replays)})
    )
    result = train(replace(RUN, precision="float32"), molecules(120), accelerator="cuda")
    assert result.engine == "lockstep"
    assert len(replays) >= 2 * 3
    eager = train(replace(RUN, precision="float32"), molecules(120), accelerator="cuda", engine="eager")
    assert eager.engine == "eager"
    assert result.history["val"] == pytest.approx(eager.history["val"], rel=0.02)
    print(f"captured {result.step_ms:.3f} ms a step, eager {eager.step_ms:.3f}")


def _counted_replay(replays):
    def replay(self):
        replays.append(1)
        return super(type(self), self).replay()

    return replay
