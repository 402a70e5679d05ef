from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch

from graphprism.datasets import molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.splitting import ORDERINGS
from graphprism.training import Run, build_model
from graphprism.training.prepared_data import GraphReadout, PreparedDataset
from graphprism.training.run_splits import run_splits
from graphprism.transforms import LaplacianPE, SplitEdges

DATASET = molecules(40)
RUN = Run(layers=2, width=9, precision="float64")


def by_pyg(run, network, graphs):
    """The slow way: transforms for each graph, PyG's batch, everything else in the network."""
    transforms = [SplitEdges(run.split), *([LaplacianPE(run.pe)] if run.pe else [])]
    data = []
    for graph in graphs.tolist():
        one = DATASET.graph(graph).contiguous()
        for transform in transforms:
            one = transform(one)
        data.append(one)
    batch = Batch.from_data_list(data)
    edge_type = batch.edge_type if CONVOLUTIONS[run.model].relational else None
    pe = batch.pe.double() if run.pe else None
    return network(batch.x, batch.edge_index, edge_type, edge_attr=batch.edge_attr, batch=batch.batch, pe=pe), batch.y


def by_prepared(run, network, graphs, batch_size):
    network.readout = GraphReadout(mean=False)
    for batch in PreparedDataset(run, DATASET).batches(graphs, batch_size):
        yield batch, network(**batch.inputs)


@pytest.mark.parametrize("model", CONVOLUTIONS)
def test_a_network_gives_what_it_gives_for_a_batch_of_pyg(model):
    run = replace(RUN, model=model, pe=3)
    network = build_model(run, DATASET).double().eval()
    graphs = torch.tensor([3, 39, 0, 7, 7, 20, 11])
    expected = [by_pyg(run, network, part) for part in graphs.split(3)]
    for (batch, output), (wanted, target) in zip(by_prepared(run, network, graphs, 3), expected, strict=True):
        torch.testing.assert_close(output, wanted)
        torch.testing.assert_close(batch.y, target.double())


@pytest.mark.parametrize("split", [*ORDERINGS, "degree,ppr"])
def test_every_split_of_the_whole_is_that_of_the_parts(split):
    run = replace(RUN, split=split)
    network = build_model(run, DATASET).double().eval()
    graphs = torch.arange(40).flip(0)
    ((_, output),) = by_prepared(run, network, graphs, 40)
    torch.testing.assert_close(output, by_pyg(run, network, graphs)[0])


@pytest.mark.parametrize("model", ["mrs-gcn", "mrs-gated-gcn", "mrs-gine"])
def test_edge_features_belong_to_the_edges_of_every_split(model):
    run = replace(RUN, model=model, split="degree; ppr", start="independent")
    network = build_model(run, DATASET).double().eval()
    graphs = torch.tensor([3, 39, 0, 7, 7, 20, 11])
    found = [output for _, output in by_prepared(run, network, graphs, 3)]
    whole = DATASET.batch(graphs)
    types = [split(whole) for split in run_splits(run, DATASET)]
    expected = network(whole.x, whole.edge_index, types, edge_attr=whole.edge_attr, batch=whole.batch)
    torch.testing.assert_close(torch.cat(found), expected)


def test_nothing_is_left_for_the_layers_to_normalise():
    for model, kind in (("mrs-gcn", "sym"), ("gcn", "sym"), ("mrs-sage", "mean"), ("mrs-gin", None), ("gat", None)):
        (batch,) = PreparedDataset(replace(RUN, model=model), DATASET).batches(torch.arange(5), 5)
        found = batch.adj.edge_weight
        assert (found is None) == (kind is None)
        if kind is not None:
            torch.testing.assert_close(found, batch.adj.with_weight(None).normalized(kind, torch.double).edge_weight)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_processes_share_every_batch(ranks):
    data, graphs = PreparedDataset(RUN, DATASET), torch.arange(40).flip(0)[:23]
    parts = [list(data.batches(graphs, 4, rank, ranks)) for rank in range(ranks)]
    rows = [list(range(*batch.rows.indices(23))) for step in zip(*parts, strict=True) for batch in step]
    assert [row for part in rows for row in part] == list(range(23))
    for step in zip(*parts, strict=True):
        sizes = [batch.y.size(0) for batch in step]
        assert {batch.total for batch in step} == {sum(sizes)}
        assert max(sizes) - min(sizes) <= 1
        for batch in step:
            assert batch.y.equal(data.targets(graphs[batch.rows]))
            assert batch.ptr.numel() == batch.y.size(0) + 1


def test_large_sets_are_cut_in_pieces(monkeypatch):
    graphs = torch.arange(40)
    whole = [batch.x for batch in PreparedDataset(RUN, DATASET).batches(graphs, 4)]
    monkeypatch.setattr("graphprism.training.prepared_data._CUT_AT_ONCE", 1)
    pieces = [batch.x for batch in PreparedDataset(RUN, DATASET).batches(graphs, 4)]
    assert len(pieces) == 10
    assert all(a.equal(b) for a, b in zip(whole, pieces, strict=True))
