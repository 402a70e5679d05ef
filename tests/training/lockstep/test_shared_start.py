"""Held relations in lockstep: the network has free relations, the optimiser their coordinates."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.nn.conv.relational_weight import RelationalParameter
from graphprism.training import Run, build_model
from graphprism.training.build_model import make_network
from graphprism.training.lockstep import networks as lockstep_networks
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.lockstep.stacked_parameters import StackedParameters
from graphprism.training.train import lockstep_key
from tests.pairwise import in_turn
from tests.training.lockstep.eager import CPU, evaluate, train_eagerly

DATASET = molecules(24)
RUN = Run(layers=2, width=10, batch_size=8, epochs=2, warmup=0, precision="float64", decay=3.0, lr=1e-2)
HELD = ("mrs-gcn", "mrs-sage", "mrs-gat", "mrs-gated-gcn", "mrs-gated-gcn-9")


def runs_of(**change):
    return [replace(RUN, seed=seed, lr=0.01 / (1 + seed), **change) for seed in range(2)]


def make_engine(runs):
    dtype = torch.float64 if runs[0].precision == "float64" else torch.float32
    return LockstepEngine(runs, DATASET, TableDataset(runs[0], DATASET, CPU, dtype), CPU)


def moved(run, scale=0.1):
    """A network whose relations have come apart."""
    network = build_model(run, DATASET).double()
    generator = torch.Generator().manual_seed(run.seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return network


def stacked(run, **more):
    networks = [moved(replace(run, seed=seed)) for seed in range(2)]
    template = make_network(run, DATASET, 16).double()
    held = lockstep_networks._release(template)
    return networks, StackedParameters(networks, template, run.pe, CPU, held=held, **more)


@pytest.mark.parametrize("model", HELD)
def test_networks_in_lockstep_have_free_relations(model):
    parameters = make_engine(runs_of(model=model)).networks.parameters
    assert not [name for name in parameters.leaves() if name.endswith(("common", "deviation"))]
    held = [module for module in build_model(RUN, DATASET).modules() if isinstance(module, RelationalParameter)]
    assert sum(each is not None for each in parameters.coordinates) >= len(held)


def test_relations_that_are_free_or_many_or_no_parameter_of_their_own_stay_as_they_are():
    for change in ({"start": "independent"}, {"decay": 0.0}, {"model": "gcn"}, {"model": "mrs-gin"}):
        parameters = make_engine(runs_of(**change)).networks.parameters
        assert parameters.used is None
        assert not any(parameters.coordinates)


@pytest.mark.parametrize("summed_last", [False, True])
@pytest.mark.parametrize("model", HELD)
def test_state_is_that_of_the_network_and_leaves_are_its_relations(model, summed_last):
    networks, parameters = stacked(replace(RUN, model=model, pe=3), summed_last=summed_last)
    leaves, wide = parameters.leaves(), [*range(7), 13, 14, 15]
    for number, network in enumerate(networks):
        torch.testing.assert_close(parameters.extract(number), dict(network.state_dict()), rtol=0, atol=0)
        rows = parameters.extract_rows(number, parameters.flat)
        torch.testing.assert_close(rows, {name: p.detach() for name, p in network.named_parameters()}, rtol=0, atol=0)
        for name, module in network.named_modules():
            if isinstance(module, RelationalParameter) and module.is_held:
                leaf = leaves[f"{name}.weight"][number].detach()
                for axis in range(1, leaf.dim()):
                    size = module().size(axis)
                    place = wide if size == 10 else [block + i for block in (0, 16) for i in wide]
                    leaf = leaf.index_select(axis, torch.tensor(place))
                torch.testing.assert_close(leaf, module())


CHANGES = [{}, {"clip": 0.01}, {"optimizer": "adam"}, {"pe": 3, "jk": "cat"}, {"deviation": "diagonal"}]


@in_turn(model=[*HELD, "mrs-gcn"], change=[CHANGES[number] for number in (0, 1, 4, 2, 3, 4)])
def test_training_equals_that_of_every_run_alone(model, change):
    runs = runs_of(model=model, **change)
    engine = make_engine(runs)
    losses = [engine.train_epoch(epoch).loss for epoch in range(2)]
    for number, run in enumerate(runs):
        network, expected = train_eagerly(run, DATASET, epochs=2)
        assert [loss[number] for loss in losses] == pytest.approx(expected, rel=1e-9)
        found = engine.networks.parameters.extract(number)
        torch.testing.assert_close(found, dict(network.state_dict()), rtol=1e-6, atol=1e-6)
        expected = evaluate(network, run, DATASET, "val")
        torch.testing.assert_close(engine.outputs_of("val")[0][number], expected, rtol=1e-6, atol=1e-6)


@in_turn(model=HELD, precision=["float64", "float32", "bf16"])
def test_training_equals_that_of_networks_that_hold_their_relations(model, precision, monkeypatch):
    runs = runs_of(model=model, precision=precision)
    found = []
    for most in (16, 0):
        monkeypatch.setattr(lockstep_networks, "_MOST_RELATIONS", most)
        engine = make_engine(runs)
        assert any(engine.networks.parameters.coordinates) == (most > 0)
        found.append([engine.train_epoch(epoch).loss for epoch in range(2)])
    near = {"float64": 1e-9, "float32": 1e-3, "bf16": 0.1}[precision]
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=near)


@pytest.mark.parametrize("precision", ["float64", "bf16"])
def test_an_engine_goes_on_where_another_was(precision):
    runs = runs_of(precision=precision)
    whole, second = make_engine(runs), make_engine(runs)
    whole.train_epoch(0)
    whole.keep_best([True, False])
    for number in range(2):
        state = whole.state(number)
        assert "convs.0.lin.common" in state["model"]
        assert state["first"].keys() == state["second"].keys()
        assert state["first"].keys() == dict(build_model(RUN, DATASET).named_parameters()).keys()
        second.load(number, state)
        torch.testing.assert_close(second.state(number), state, rtol=0, atol=0)
    assert whole.train_epoch(1).loss == second.train_epoch(1).loss
    assert whole.networks.parameters.flat.equal(second.networks.parameters.flat)


def test_runs_of_another_start_or_decay_go_apart():
    others = [replace(RUN, start="independent"), replace(RUN, decay=4.0), replace(RUN, decay=0.0)]
    assert len({lockstep_key(run) for run in [RUN, *others]}) == 4
    assert lockstep_key(replace(RUN, seed=1, weight_decay=0.1)) == lockstep_key(RUN)


def test_released_relations_are_free():
    parameter = RelationalParameter((4, 5), 3, "shared", 3.0)
    parameter.draw(1.0)
    torch.nn.init.uniform_(parameter.deviation)
    common, deviation, expected = parameter.common, parameter.deviation, parameter().detach()
    matrix, lengths = parameter.release()
    assert [(name, each.shape) for name, each in parameter.named_parameters()] == [("weight", (3, 4, 5))]
    assert not list(parameter.buffers())
    rows = torch.cat([common[None], deviation]).detach().double()
    torch.testing.assert_close(
        torch.einsum("rc,c,cij->rij", matrix, lengths, rows), expected.double(), rtol=1e-6, atol=1e-6
    )
    parameter.set_(expected)
    assert parameter() is parameter.weight
    assert parameter.weight.equal(expected)
    waiting = RelationalParameter(None, 3, "shared", 3.0)
    for each, came in ((parameter, "free ones"), (waiting, "some that wait for an input")):
        with pytest.raises(ValueError, match=f"held and have a known size to be released, got {came}"):
            each.release()
