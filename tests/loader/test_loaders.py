from itertools import chain
from types import SimpleNamespace

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data
from torch_geometric.loader import ImbalancedSampler

from graphprism import check_split
from graphprism.loader import (
    ClusterLoader,
    LinkNeighborLoader,
    NeighborLoader,
    NeighborSampler,
    SeedBatches,
    layerwise,
    put_relations,
)
from graphprism.nn import MRSSAGEConv
from tests.loader.graphs import end_workers, small_data


def test_seed_batches_are_divided_without_loss():
    options = {"shuffle": True, "seed": 3}
    whole = list(SeedBatches(23, 5, **options))
    assert sorted(chain(*whole)) == list(range(23))
    for ranks in (2, 3, 7):
        parts = [list(SeedBatches(23, 5, **options, rank=rank, ranks=ranks)) for rank in range(ranks)]
        assert [list(chain(*batch)) for batch in zip(*parts, strict=True)] == whole
    assert len(SeedBatches(23, 5, drop_last=True)) == len(list(SeedBatches(23, 5, drop_last=True))) == 4


def test_seed_batches_of_epochs_differ():
    batches = SeedBatches(23, 5, shuffle=True)
    first = list(batches)
    batches.epoch = 1
    assert list(batches) != first
    batches.epoch = 0
    assert list(batches) == first


@pytest.mark.parametrize("num_workers", [0, 2])
def test_neighbor_loader_passes_are_epochs(num_workers):
    data = small_data()
    more = {"num_workers": num_workers, "persistent_workers": True, "multiprocessing_context": "fork"}
    options = {"batch_size": 16, "shuffle": True, "seed": 1, **(more if num_workers else {})}
    loader = NeighborLoader(data, [3, 3], data.y == 1, **options)

    def one_pass():
        found = list(loader)
        assert all(batch.y[: batch.batch_size].eq(1).all() for batch in found)
        for batch in found:
            check_split(batch)
        return [(batch.n_id.tolist(), batch.e_id.tolist()) for batch in found]

    first, second = one_pass(), one_pass()
    assert len(loader) == len(first)
    assert first != second
    loader.set_epoch(0)
    assert [one_pass(), one_pass()] == [first, second]
    if num_workers:
        end_workers(loader)


BORDERS = {
    "nodes": lambda data: NeighborLoader(data, [3]),
    "links": lambda data: LinkNeighborLoader(data, [3]),
    "clusters": lambda data: ClusterLoader(data, 2, torch.arange(data.num_nodes) % 2),
    "sampler": lambda data: NeighborSampler(data, [3]),
    "layers": lambda data: layerwise(MRSSAGEConv(5, 3).double(), data),
    "store": lambda data: put_relations(SimpleNamespace(put_edge_index=lambda *_, **__: None), data, 3),
}


@pytest.mark.parametrize("name", BORDERS)
def test_loaders_refuse_relations_of_other_edges(name):
    make, data = BORDERS[name], small_data(norm=None)
    make(data)
    data.edge_index = data.edge_index.flip(0)
    with pytest.raises(ValueError, match="edges were reversed but kept their types"):
        make(data)


@pytest.mark.parametrize("name", ["nodes", "links", "sampler"])
def test_loaders_refuse_relations_that_know_of_held_out_links(name):
    data = small_data(norm=None)
    train, _, _ = T.RandomLinkSplit()(data)
    with pytest.raises(ValueError, match=r"apply T.RandomLinkSplit first"):
        BORDERS[name](train)


@pytest.mark.parametrize("disjoint", [False, True])
def test_processes_sample_what_one_samples(disjoint):
    data = small_data()
    options = {"batch_size": 16, "shuffle": True, "disjoint": disjoint, "seed": 2}

    def seeds_and_edges(batches):
        """Every seed with the edges that enter it."""
        found = {}
        for batch in batches:
            for number in range(batch.batch_size):
                into = batch.e_id[batch.edge_index[1] == number]
                found[int(batch.n_id[number])] = sorted(into.tolist())
        return found

    whole = seeds_and_edges(NeighborLoader(data, [3, 3], **options))
    for ranks in (2, 5):
        parts = {}
        for rank in range(ranks):
            parts |= seeds_and_edges(NeighborLoader(data, [3, 3], rank=rank, ranks=ranks, **options))
        assert parts == whole


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_processes_draw_the_negative_links_of_one(mode):
    data = small_data()

    def links(ranks):
        found = set()
        for rank in range(ranks):
            options = {"batch_size": 64, "shuffle": True, "disjoint": True, "rank": rank, "ranks": ranks}
            for batch in LinkNeighborLoader(data, [2], neg_sampling=mode, **options):
                if mode == "binary":
                    count = batch.input_id.numel()
                    pairs = batch.n_id[batch.edge_label_index[:, count:]].t().tolist()
                else:
                    pairs = batch.n_id[batch.dst_neg_index].tolist()
                found |= {(number, str(pair)) for number, pair in zip(batch.input_id.tolist(), pairs, strict=True)}
        return found

    assert len(links(1)) == data.num_edges
    assert links(1) == links(3)


def test_unbiased_weights_have_the_mean_of_the_whole_sum():
    data = small_data(norm="sym")
    expected = torch.zeros(60, 5, dtype=torch.float64)
    expected.index_add_(0, data.edge_index[1], data.edge_weight[:, None] * data.x[data.edge_index[0]])
    loader = NeighborLoader(data, [4], torch.tensor([3]), unbiased=True)
    sums = []
    for epoch in range(1000):
        loader.node_sampler.set_epoch(epoch)
        batch = loader([0])
        sums.append((batch.edge_weight[:, None] * batch.x[batch.edge_index[0]]).sum(0))
    sums = torch.stack(sums)
    assert bool(((sums.mean(0) - expected[3]).abs() < 4 * sums.std(0) / 1000**0.5).all())
    (batch,) = NeighborLoader(data, [-1], torch.tensor([3]), unbiased=True)
    assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])


def test_neighbor_loader_takes_a_sampler_with_repeats():
    data = small_data()
    sampler = ImbalancedSampler(data.y, num_samples=50)
    for batch in NeighborLoader(data, [3], batch_size=25, sampler=sampler):
        assert batch.batch_size == 25
        assert torch.equal(batch.n_id[:25], batch.input_id)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rank": 2, "ranks": 2}, "`rank` must be in \\[0, 2\\), the number of processes, got 2"),
        ({"batch_size": 0}, "`batch_size` must be"),
        ({"ranks": 2, "sampler": range(3)}, "`sampler` must be None on 2 processes"),
        ({"unbiased": True, "direction": "both"}, "`unbiased` must come with"),
        ({"input_nodes": [1, 2]}, "`input_nodes` must be None or a tensor, got list"),
    ],
)
def test_bad_options_are_said(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        NeighborLoader(small_data(), [2], **options)


def test_unbiased_needs_weights():
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    with pytest.raises(ValueError, match="got no `edge_weight`"):
        NeighborLoader(data, [2], unbiased=True)
