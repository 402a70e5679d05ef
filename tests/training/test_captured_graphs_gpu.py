"""Captured steps of the eager engine on a GPU: a run of any network is the run of plain steps."""

import sys
from dataclasses import replace

import pytest
import torch

import graphprism.training.eager
from graphprism.nn import REMEDIES
from graphprism.training import Run, train, train_lockstep
from tests.training.captured_cases import RUNS, SET, by_position, make_engine, trained

pytestmark = pytest.mark.gpu

# A captured step reads its learning rate from the device, where it has the digits of float32.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture
def calm_adam(monkeypatch):
    """Adam divides gradients by their size: one that is zero up to rounding, of a bias before a norm, would be one."""

    def make(run, parameters, capturable=False):
        return torch.optim.AdamW(parameters, lr=run.lr, weight_decay=0.01, eps=1e-3, fused=True, capturable=capturable)

    monkeypatch.setattr(graphprism.training.eager, "make_optimizer", make)


def is_captured(engine):
    return engine._captured is not None and engine._captured._step._graph is not None


@pytest.mark.parametrize("name", RUNS)
def test_captured_run_is_the_run_of_plain_steps(name, calm_adam, monkeypatch):
    monkeypatch.setattr("graphprism.nn.models.remedies.keep_mask", by_position)  # padding has edges to drop as well
    run = replace(RUNS[name], lr=0.02, epochs=5)
    plain, captured = make_engine(run, False, "cuda"), make_engine(run, True, "cuda")
    (numbers, state), (expected, before) = trained(captured, range(5)), trained(plain, range(5))
    assert is_captured(captured)
    torch.testing.assert_close(numbers, expected, **CLOSE)
    assert len({*numbers[:, 0].tolist()}) == 5
    torch.testing.assert_close(state["model"], before["model"], **CLOSE)
    assert state["steps"] == before["steps"] == 20


@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_captured_run_in_other_precisions(remedy, precision, monkeypatch):
    monkeypatch.setattr("graphprism.nn.models.remedies.keep_mask", by_position)
    run = replace(RUNS[remedy], precision=precision, lr=0.001)
    engines = [make_engine(run, captures, "cuda") for captures in (True, False)]
    found, expected = (trained(engine)[0] for engine in engines)
    assert is_captured(engines[0])
    # the first epoch has a learning rate of nearly zero
    close = 1e-3 if precision == "float32" else 0.05
    torch.testing.assert_close(found[:2], expected[:2], rtol=close, atol=close)


@pytest.mark.parametrize("remedy", REMEDIES)
def test_same_seed_gives_the_same_bits(remedy):
    run = replace(RUNS[remedy], precision="float32", dropout=0.2)
    (first, state), (again, other) = (trained(make_engine(run, True, "cuda")) for _ in range(2))
    assert torch.equal(first, again)
    torch.testing.assert_close(state["model"], other["model"], rtol=0, atol=0)
    assert not torch.equal(first, trained(make_engine(replace(run, seed=1), True, "cuda"))[0])


@pytest.mark.parametrize("remedy", REMEDIES)
def test_resumed_run_has_the_same_bits(remedy):
    run = replace(RUNS[remedy], precision="float32", dropout=0.2)
    whole, end = trained(make_engine(run, True, "cuda"))
    begun, kept = trained(make_engine(run, True, "cuda"), range(2))
    resumed = make_engine(run, True, "cuda")
    resumed.load(0, kept)
    rest, found = trained(resumed, range(2, 3))
    assert is_captured(resumed)
    assert torch.equal(torch.cat([begun, rest]), whole)
    torch.testing.assert_close(found["model"], end["model"], rtol=0, atol=0)


def test_state_that_is_loaded_between_epochs():
    run = replace(RUNS["gcnii"], epochs=4)
    engine = make_engine(run, True, "cuda")
    begun, kept = trained(engine, range(2))
    first, _ = trained(engine, range(2, 4))
    engine.load(0, kept)
    again, _ = trained(engine, range(2, 4))
    assert is_captured(engine)
    torch.testing.assert_close(again, first, rtol=1e-9, atol=1e-9)
    assert begun.isfinite().all()


def test_dropped_edges_differ_from_step_to_step():
    run = replace(RUNS["dropedge"], lr=1e-12, batch_size=None, epochs=12, warmup=0)
    losses = trained(make_engine(run, True, "cuda"), range(12))[0][:, 0]
    assert losses.unique().numel() == 12


class Waiting(torch.nn.Module):
    """A norm that reads a value from the device."""

    def forward(self, x):
        return x * (2.0 if x.isfinite().all().item() else 1.0)


def test_step_that_waits_for_the_device_is_taken_plainly_and_said():
    run = replace(RUNS["directed"], norm=None, dropout=0.2)
    engines = [make_engine(run, captures, "cuda") for captures in (True, False)]
    for engine in engines:
        engine.network.norms = torch.nn.ModuleList(Waiting() for _ in engine.network.norms)
    with pytest.warns(UserWarning, match="is trained by plain steps, .* must not cause a host-device sync"):
        found = trained(engines[0])
    expected = trained(engines[1])
    assert engines[0]._captured is None
    torch.testing.assert_close(found[0], expected[0], **CLOSE)
    assert found[1]["steps"] == expected[1]["steps"] == 12


@pytest.fixture
def engines(monkeypatch):
    """The eager engines that `train` makes."""
    made = []

    class Engine(graphprism.training.eager.EagerEngine):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(sys.modules["graphprism.training.train"], "EagerEngine", Engine)
    return made


@pytest.mark.parametrize("name", ["gcnii", "g2", "directed", "learned split"])
def test_train_captures(name, engines, tmp_path):
    run = replace(RUNS[name], epochs=4)
    captured = train(run, SET, accelerator="cuda", folder=tmp_path)
    plain = train(run, SET, accelerator="cuda", engine="eager")
    assert is_captured(engines[0])
    assert engines[1]._captured is None
    assert captured.history["train_loss"] == pytest.approx(plain.history["train_loss"], rel=1e-4)
    assert captured.history["val"] == pytest.approx(plain.history["val"], rel=1e-4)


def test_lockstep_and_captured_runs_side_by_side(engines):
    runs = [Run(model="gcn", **each) for each in ({}, {"remedy": "fagcn"})]
    runs = [replace(run, layers=2, width=8, epochs=2) for run in runs]
    results = train_lockstep(runs, SET, accelerator="cuda")
    assert [result.engine for result in results] == ["lockstep", "eager"]
    assert is_captured(engines[0])
