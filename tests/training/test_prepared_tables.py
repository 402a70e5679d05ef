"""Batches as tables, which a GPU gets; on a CPU they are asked for by hand."""

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.training import Run, build_model, train
from graphprism.training import prepared_data as module
from graphprism.training.prepared_data import PreparedDataset, split_graphs
from tests.training.by_hand import train_by_hand
from tests.training.lockstep.test_train_lockstep import star

DATASET = molecules(40)
RUN = Run(layers=3, width=9, precision="float64", residual=True)
GPU = torch.device("cuda")


def with_tables(run):
    """What a GPU would have, on the CPU."""
    data = PreparedDataset(run, DATASET)
    whole = DATASET.batch(torch.arange(len(DATASET)))
    data._table = PaddedAdj.build(split_graphs(run, DATASET, whole)[0], "sym", torch.float64).relative()
    return data


@pytest.mark.parametrize("at_once", [1, 2_000, 1_000_000])
@pytest.mark.parametrize("model", ["gcn", "mrs-gcn"])
def test_a_network_gives_the_same_on_tables(model, at_once, monkeypatch):
    monkeypatch.setattr(module, "_CUT_AT_ONCE", at_once)
    run = replace(RUN, model=model)
    network = build_model(run, DATASET).double()
    graphs = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    batches = zip(PreparedDataset(run, DATASET).batches(graphs, 7), with_tables(run).batches(graphs, 7), strict=True)
    for plain, table in batches:
        assert isinstance(plain.adj, RelationalAdj)
        assert isinstance(table.adj, PaddedAdj)
        assert table.adj.size == plain.adj.size
        torch.testing.assert_close(network(**table.inputs), network(**plain.inputs))


def test_the_tables_of_a_batch_are_those_of_its_graphs_alone():
    graphs = torch.tensor([5, 31, 5])
    (batch,) = with_tables(RUN).batches(graphs, 3)
    alone = PaddedAdj.build(split_graphs(RUN, DATASET, DATASET.batch(graphs))[0], "sym", torch.float64)
    slots = min(alone.num_slots, batch.adj.num_slots)
    for name, width in (("weights", 2), ("numbers", 5)):
        ours, theirs = (getattr(adj, name).unflatten(1, (width, -1)) for adj in (batch.adj, alone))
        if name == "numbers":  # the number of an entry depends on how many slots there are
            ours, theirs = (each[:, [0, 1, 3, 4]] for each in (ours, theirs))
        assert ours[..., :slots].equal(theirs[..., :slots])


@pytest.mark.parametrize(
    "change", [{"model": "mrs-sage"}, {"model": "gat"}, {"norm": "batch"}, {"dropout": 0.1}], ids=str
)
def test_only_stacks_have_tables(change):
    (plain,) = split_graphs(RUN, DATASET, DATASET.batch(torch.arange(2)))
    assert module._table(replace(RUN, **change), plain, "sym", torch.float64, GPU) is None
    assert module._table(RUN, plain, "sym", torch.float64, torch.device("cpu")) is None


def test_graphs_with_hubs_have_none():
    hubs = star()
    (plain,) = split_graphs(RUN, hubs, hubs.batch(torch.arange(len(hubs))))
    assert module._table(RUN, plain, "sym", torch.float64, GPU) is None


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["gcn", "mrs-gcn"])
def test_a_gpu_gets_tables(model):
    data = PreparedDataset(replace(RUN, model=model), DATASET, "cuda")
    batches = list(data.batches(torch.arange(40), 16))
    assert all(isinstance(batch.adj, PaddedAdj) for batch in batches)
    assert {batch.adj.numbers.device.type for batch in batches} == {"cuda"}


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["gcn", "mrs-gcn"])
def test_training_on_a_gpu_equals_the_loop_written_by_hand(model):
    run = replace(RUN, model=model, epochs=2, warmup=0, batch_size=16)
    result = train(run, DATASET, accelerator="gpu", engine="eager")
    _, losses, _ = train_by_hand(run, DATASET)
    count = DATASET.subset("train").numel()
    sizes = [min(16, count - first) for first in range(0, count, 16)]
    means = [sum(n * loss for n, loss in zip(sizes, epoch, strict=True)) / count for epoch in losses]
    assert result.history["train_loss"] == pytest.approx(means, rel=1e-9)
