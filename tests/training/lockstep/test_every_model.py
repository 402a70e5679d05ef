from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.training import Run
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from tests.pairwise import in_turn
from tests.training.lockstep.eager import CPU, MODELS, evaluate, make_engine, train_eagerly

# 20 training graphs: two batches of eight and one of four.
DATASET = molecules(24)
RUN = Run(layers=2, width=10, batch_size=8, epochs=2, warmup=0, precision="float64")
# A bias before a batch norm has no gradient but rounding, which Adam makes a step of 1e-8.
NEAR = {"rtol": 1e-6, "atol": 1e-6}
OPTIONS = [{}, {"residual": True}, {"jk": "cat"}, {"jk": "max", "pe": 3}, {"norm": "batch"}, {"normalize": True}]


@in_turn(model=[*MODELS], options=OPTIONS)
def test_an_epoch_equals_that_of_every_run_alone(model, options):
    # gates leave weights without a gradient (the last norm of edges), which PyTorch's optimisers do not shrink
    decay = 0.0 if CONVOLUTIONS[model].takes_edge_attr else 0.1
    run = replace(RUN, model=model, **options)
    runs = [replace(run, seed=0, lr=1e-2), replace(run, seed=1, lr=3e-3, weight_decay=decay)]
    engine = make_engine(runs, DATASET)
    trained = engine.train_epoch(0)
    assert trained.bad_step == [0, 0]
    outputs = {subset: engine.outputs_of(subset)[0] for subset in ("val", "test")}
    for number, one in enumerate(runs):
        network, losses = train_eagerly(one, DATASET)
        assert trained.loss[number] == pytest.approx(losses[0], rel=1e-10)
        found = engine.networks.parameters.extract(number)
        torch.testing.assert_close(found, dict(network.state_dict()), **NEAR)
        for subset, output in outputs.items():
            expected = evaluate(network, one, DATASET, subset)
            torch.testing.assert_close(output[number], expected, **NEAR)


@pytest.mark.parametrize(
    "change", [{"optimizer": "adam"}, {"clip": 0.0}, {"clip": 0.01}, {"split": "degree,ppr"}], ids=str
)
def test_other_ways_to_train(change):
    runs = [replace(RUN, seed=seed, weight_decay=0.1 * seed, **change) for seed in range(2)]
    engine = make_engine(runs, DATASET)
    losses = [engine.train_epoch(epoch).loss for epoch in range(2)]
    for number, run in enumerate(runs):
        network, expected = train_eagerly(run, DATASET, epochs=2)
        assert [loss[number] for loss in losses] == pytest.approx(expected, rel=1e-10)
        found = engine.networks.parameters.extract(number)
        torch.testing.assert_close(found, dict(network.state_dict()), **NEAR)


@pytest.mark.parametrize("start", ["shared", "independent"])
@pytest.mark.parametrize("model", ["gin", "mrs-gin", "mrs-gat", "mrs-gated-gcn"])
def test_bf16_is_near(model, start):
    runs = [replace(RUN, model=model, start=start, seed=seed) for seed in range(2)]
    exact = make_engine(runs, DATASET).train_epoch(0).loss
    low = [replace(run, precision="bf16") for run in runs]
    engine = LockstepEngine(low, DATASET, TableDataset(low[0], DATASET, CPU, torch.float32), CPU)
    assert engine.train_epoch(0).loss == pytest.approx(exact, rel=0.05)
