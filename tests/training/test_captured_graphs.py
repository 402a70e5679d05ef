"""Captured steps of the eager engine, without a capture: padded steps are the plain ones, whatever the network."""

import gc
import sys
import weakref
from dataclasses import replace

import pytest
import torch

import graphprism.training.eager
from graphprism.datasets import molecules
from graphprism.ops import RelationalAdj
from graphprism.training import Run, train, train_lockstep
from graphprism.training.captured_graphs import CapturedGraphs, _to_data, largest_batch, why_not_captured
from graphprism.training.padded_batch import PaddedBatch, masked_batch_norms
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.train import captures_steps, why_not_lockstep
from tests.training.captured_cases import BASE, RUNS, SET, by_position, make_engine, trained

EXACT = {"rtol": 1e-10, "atol": 1e-11}


@pytest.fixture
def calm_adam(monkeypatch):
    """Adam divides gradients by their size: one that is zero up to rounding, of a bias before a norm, would be one."""

    def make(run, parameters, capturable=False):
        return torch.optim.AdamW(parameters, lr=run.lr, weight_decay=0.01, eps=1e-3)

    monkeypatch.setattr(graphprism.training.eager, "make_optimizer", make)


@pytest.mark.parametrize("name", RUNS)
def test_padded_steps_are_the_plain_steps(name, calm_adam, monkeypatch):
    monkeypatch.setattr("graphprism.nn.models.remedies.keep_mask", by_position)
    run = replace(RUNS[name], lr=0.02)
    plain, padded = make_engine(run, False), make_engine(run, True)
    (numbers, state), (expected, before) = trained(padded), trained(plain)
    assert padded._captured is not None
    torch.testing.assert_close(numbers, expected, **EXACT)
    assert len({*numbers[:, 0].tolist()}) == 3
    for part in ("model", "first", "second"):
        torch.testing.assert_close(state[part], before[part], **EXACT)
    assert state["steps"] == before["steps"] == 12


@pytest.mark.parametrize("name", ["dropedge", "signs", "gcnii"])
def test_same_seed_gives_the_same_bits_and_resumes_with_them(name):
    run = replace(RUNS[name], precision="float32", dropout=0.2)
    first, state = trained(make_engine(run, True))
    again, _ = trained(make_engine(run, True))
    assert torch.equal(first, again)
    assert not torch.equal(first, trained(make_engine(replace(run, seed=1), True))[0])
    begun, kept = trained(make_engine(run, True), range(2))
    resumed = make_engine(run, True)
    resumed.load(0, kept)
    rest, end = trained(resumed, range(2, 3))
    assert torch.equal(torch.cat([begun, rest]), first)
    torch.testing.assert_close(end["model"], state["model"], rtol=0, atol=0)


def losses_without_values(run):
    """Loss and gradients of a padded batch of tensors without values: whatever reads one raises, as under capture."""
    engine = make_engine(run, True)
    batch = _to_data(next(iter(engine._batches(engine.data.training_rows(0), 16, 0))))
    padded = PaddedBatch(batch, 1.25, torch.device("cpu"), engine.network.num_relations)
    padded.fill(batch)
    data, size = padded.graph(), (padded.num_nodes, padded.num_nodes)
    del data.adj
    data = data.to("meta")
    types, weight = getattr(data, "edge_type", None), getattr(data, "edge_weight", None)
    data.adj = RelationalAdj.in_forward(data.edge_index, types, weight, padded.num_relations, size)
    network = engine.network.to("meta").train()
    with masked_batch_norms(network, data):
        loss = engine._captured._losses(network, data)
    loss.sum().backward()
    return loss


@pytest.mark.parametrize("name", RUNS)
def test_step_reads_no_value_of_a_tensor(name):
    assert losses_without_values(RUNS[name]).shape == (17,)


def test_layer_that_selects_edges_reads_values():
    with pytest.raises((RuntimeError, NotImplementedError), match=r"(?i)meta|data-dependent"):
        losses_without_values(Run(**{**BASE, "model": "pyg-gcn"}))


def test_buffers_have_room_for_every_batch_of_the_run():
    run = replace(RUNS["gcnii"], epochs=20)
    data = PreparedDataset(run, SET)
    batches = [batch for epoch in range(20) for batch in data.batches(data.training_rows(epoch), 16)]
    expected = (max(b.x.size(0) for b in batches), max(b.adj.num_edges for b in batches), 16)
    assert largest_batch(run, data) == expected
    engine = make_engine(run, True)
    padded = {id(engine._captured._step._padded) for epoch in range(20) if engine.train_epoch(epoch)}
    assert len(padded) == 1


def test_batches_of_any_size():
    data = PreparedDataset(RUNS["gcnii"], SET)
    count = data.subset("train").numel()
    for batch_size, most in ((None, count), (1000, count), (1, 1)):
        nodes, edges, graphs = largest_batch(replace(RUNS["gcnii"], batch_size=batch_size), data)
        assert graphs == most
        sizes = SET.node_ptr.diff()[data.subset("train")]
        assert nodes == (sizes.max() if batch_size == 1 else sizes.sum())
        assert edges > 0


class Leaky(torch.nn.Module):
    """A norm over all rows, padding included."""

    def forward(self, x):
        return x - x.mean(0)


def test_step_that_depends_on_padding_is_taken_plainly_and_said():
    run = replace(RUNS["directed"], norm=None)
    engines = [make_engine(run, captures) for captures in (True, False)]
    for engine in engines:
        engine.network.norms = torch.nn.ModuleList(Leaky() for _ in engine.network.norms)
    with pytest.warns(UserWarning, match="mrs-dir-gcn .* is trained by plain steps, not captured ones: `loss` must"):
        numbers, state = trained(engines[0])
    assert engines[0]._captured is None
    expected, before = trained(engines[1])
    torch.testing.assert_close(numbers, expected, rtol=0, atol=0)
    torch.testing.assert_close(state["model"], before["model"], rtol=0, atol=0)
    assert state["steps"] == before["steps"]


def test_step_that_cannot_be_captured_leaves_no_trace(monkeypatch):
    run = replace(RUNS["directed"], dropout=0.3)

    def fail(self, batch, output):
        self(batch, output)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(CapturedGraphs, "try_on", fail)
    engine = make_engine(run, True)
    with pytest.warns(UserWarning, match="operation not permitted"):
        found = trained(engine)
    expected = trained(make_engine(run, False))
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1]["model"], expected[1]["model"], rtol=0, atol=0)


def test_captured_step_is_freed_with_its_engine():
    """Without a garbage collection: the next run needs the memory of the graph and its buffers."""
    engine = make_engine(replace(RUNS["directed"], epochs=1), True)
    engine.train_epoch(0)
    step = weakref.ref(engine._captured._step)
    gc.collect()
    gc.disable()
    try:
        del engine
        assert step() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"norm": "layer"}, "padding cannot be masked in layer norm"),
        ({"jk": "lstm"}, "by an LSTM"),
        ({"model": "pyg-gcn"}, "pyg-gcn selects edges by masks"),
        ({"split": "degree; ppr"}, "not for one of each layer"),
    ],
)
def test_reasons(options, reason):
    run = Run(**{**BASE, **options})
    assert reason in why_not_captured(run, SET)
    assert not captures_steps(run, SET, "auto", "cuda")


def test_which_steps_are_captured():
    for name, run in RUNS.items():
        assert why_not_captured(run, SET) == ""
        assert captures_steps(run, SET, "auto", "cuda")
        assert bool(why_not_lockstep(run, SET)) == (name not in ("gated", "LMGC", "walks"))
    run = RUNS["g2"]
    assert not captures_steps(run, SET, "eager", "cuda")
    assert not captures_steps(run, SET, "auto", "cpu")
    assert not captures_steps(run, SET, "auto", "cuda", processes=2)


def test_runs_that_lockstep_does_not_take_are_captured(monkeypatch):
    """`train` and `train_lockstep` ask for captured steps, unless the user asks for eager ones."""
    asked = []

    class Engine(graphprism.training.eager.EagerEngine):
        def __init__(self, fabric, run, dataset, captures=False):
            asked.append(captures)
            super().__init__(fabric, run, dataset, captures)

    module = sys.modules["graphprism.training.train"]  # the package has a function of its name
    monkeypatch.setattr(module, "EagerEngine", Engine)
    monkeypatch.setattr(module, "captures_steps", lambda *args: captures_steps(*args[:3], "cuda", *args[4:]))
    run, data = replace(RUNS["gcnii"], epochs=1), molecules(40)
    train(run, data, accelerator="cpu")
    train(run, data, accelerator="cpu", engine="eager")
    train_lockstep([run], data, accelerator="cpu")
    assert asked == [True, False, True]
