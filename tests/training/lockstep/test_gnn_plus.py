"""Networks of GNN+ in lockstep are those of every run alone."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run
from tests.training.lockstep.eager import evaluate, make_engine, train_eagerly

# 20 training graphs: two batches of eight and one of four.
DATASET = molecules(24)
RUN = Run(
    layers=3, width=10, batch_size=8, epochs=2, warmup=0, precision="float64", residual=True, ffn=True, head_layers=3,
    pe=3, pe_encoder="walk", walk_steps=5, edge_walks=True, split="degree * attr(edge_attr)",
)  # fmt: skip
# A bias before a batch norm has no gradient but rounding, of which Adam makes a step: 1e-8, or all of a learning rate.
FREE = "bias"
NEAR = {"rtol": 1e-6, "atol": 1e-6}
MODELS = ("gcne", "mrs-gcne", "gine", "mrs-gine", "gated-gcn", "mrs-gated-gcn")
CHANGES = [
    {"norm": "batch"},
    {"split_layers": "late", "split": "degree", "norm": "batch"},
    {"ffn": False, "head": "constant", "head_activation": "gelu", "activation": "gelu", "edge_walks": False},
    {"start": "independent", "residual": False},
]


def without_free(state):
    return {name: value for name, value in state.items() if not (name.startswith("convs.") and name.endswith(FREE))}


# every model with some changes, and every change with some models
CASES = [("mrs-gcne", change) for change in CHANGES]
CASES += [(model, CHANGES[number % 4]) for number, model in enumerate(MODELS) if model != "mrs-gcne"]


@pytest.mark.parametrize(("model", "change"), CASES, ids=str)
def test_an_epoch_equals_that_of_every_run_alone(model, change):
    run = replace(RUN, model=model, **change)
    # seeds with which no bias without a gradient decides on which side of a ReLU nodes without messages are
    runs = [replace(run, seed=1, lr=1e-2), replace(run, seed=2, lr=3e-3)]
    engine = make_engine(runs, DATASET)
    trained = engine.train_epoch(0)
    assert trained.bad_step == [0, 0]
    outputs = {subset: engine.outputs_of(subset)[0] for subset in ("val", "test")}
    for number, one in enumerate(runs):
        network, losses = train_eagerly(one, DATASET)
        assert trained.loss[number] == pytest.approx(losses[0], rel=1e-9)
        found = without_free(engine.networks.parameters.extract(number))
        torch.testing.assert_close(found, without_free(network.state_dict()), **NEAR)
        for subset, output in outputs.items():
            torch.testing.assert_close(output[number], evaluate(network, one, DATASET, subset), **NEAR)


@pytest.mark.parametrize("model", ["mrs-gcn", "gcn"])
def test_a_stack_of_gcn_with_blocks_is_not_fused(model):
    run = replace(RUN, model=model, split="degree", edge_walks=False)
    engine = make_engine([run], DATASET)
    loss = engine.train_epoch(0).loss[0]
    assert loss == pytest.approx(train_eagerly(run, DATASET)[1][0], rel=1e-9)


@pytest.mark.parametrize("model", ["mrs-gcne", "mrs-gated-gcn"])
def test_dropout_reaches_every_block(model):
    run = replace(RUN, model=model, dropout=0.3, edge_dropout=True, norm="batch", head="constant")
    engine = make_engine([run, replace(run, seed=1)], DATASET)
    first = engine.train_epoch(0).loss
    again = make_engine([run, replace(run, seed=1)], DATASET)
    assert again.train_epoch(0).loss == first
    without = make_engine([replace(run, dropout=0.0), replace(run, seed=1, dropout=0.0)], DATASET)
    assert without.train_epoch(0).loss != first
