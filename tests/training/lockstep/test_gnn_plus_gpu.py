"""GCN+, GIN+ and GatedGCN+ in captured steps, with the kernels of a GPU."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.training import Run, train_lockstep
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine

pytestmark = pytest.mark.gpu
DATASET = molecules(96)
RUN = Run(
    layers=3, width=20, epochs=3, warmup=1, batch_size=24, precision="float64", residual=True, ffn=True, head_layers=3,
    pe=6, pe_encoder="walk", walk_steps=5, edge_walks=True, norm="batch",
)  # fmt: skip
MODELS = ("gcne", "mrs-gcne", "gine", "mrs-gine", "gated-gcn", "mrs-gated-gcn")
CHANGES = [{}, {"split": "degree * attr(edge_attr)"}, {"split_layers": "late"}, {"ffn": False, "activation": "gelu"}]
SCORES = ("lr", "train_loss", "train", "val", "test")


def grid(**change):
    return [replace(RUN, seed=seed, lr=lr, **change) for seed, lr in ((0, 1e-3), (1, 3e-4), (2, 2e-3))]


def numbers(results):
    return [[result.history[name] for name in SCORES] for result in results]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_equals_the_cpu(model, change):
    runs = grid(model=model, **change)
    ours, theirs = (train_lockstep(runs, DATASET, accelerator=device) for device in ("gpu", "cpu"))
    for one, other in zip(ours, theirs, strict=True):
        for name in SCORES:
            # a bias before a batch norm has no gradient but rounding, of which Adam makes a step
            assert one.history[name] == pytest.approx(other.history[name], rel=1e-4), name


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("model", ["mrs-gcne", "mrs-gine", "mrs-gated-gcn"])
def test_the_same_bits_twice_and_near_the_exact_ones(model, precision):
    exact = numbers(train_lockstep(grid(model=model), DATASET, accelerator="gpu"))
    runs = grid(model=model, precision=precision)
    found = [numbers(train_lockstep(runs, DATASET, accelerator="gpu")) for _ in range(2)]
    assert found[0] == found[1]
    tolerance = {"float32": 1e-2, "bf16": 0.1}[precision]
    for ours, theirs in zip(found[0], exact, strict=True):
        assert ours[1][:2] == pytest.approx(theirs[1][:2], rel=tolerance)  # later, rounding has grown


def test_dropout_differs_between_steps_and_not_between_calls():
    runs = grid(model="gated-gcn", dropout=0.2, edge_dropout=True)
    first, second = (numbers(train_lockstep(runs, DATASET, accelerator="gpu")) for _ in range(2))
    assert first == second
    assert first != numbers(train_lockstep(grid(model="gated-gcn"), DATASET, accelerator="gpu"))


def test_running_statistics_are_those_of_the_steps_that_were_taken():
    """Capturing calls a step several times, which must leave no trace."""
    device = torch.device("cuda")
    runs = grid(model="mrs-gcne")
    engine = LockstepEngine(runs, DATASET, TableDataset(runs[0], DATASET, device, torch.float64), device)
    steps = engine.train_epoch(0).steps
    counts = [value for name, value in engine.networks.parameters.buffers.items() if name.endswith("batches_tracked")]
    assert counts
    assert all(value.tolist() == [steps] * 3 for value in counts)
