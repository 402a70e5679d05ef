"""The sampler on a GPU gives what it gives on the CPU."""

import pytest
import torch
from torch_geometric.sampler import NegativeSampling

from graphprism.loader import LinkNeighborLoader, NeighborLoader, layerwise
from graphprism.nn import GNN
from tests.loader.graphs import small_data

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("direction", ["in", "both"])
@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("kind", ["directional", "bidirectional", "induced"])
def test_nodes_sampled_on_a_gpu_are_those_of_the_cpu(direction, disjoint, kind):
    data = small_data()
    options = {"direction": direction, "disjoint": disjoint, "subgraph_type": kind, "batch_size": 17, "shuffle": True}
    loaders = [NeighborLoader(each, [3, 3], **options) for each in (data, small_data().to("cuda"))]
    for ours, theirs in zip(*loaders, strict=True):
        assert theirs.edge_index.is_cuda
        for name in ("n_id", "e_id", "edge_index", "edge_type", "x"):
            assert torch.equal(theirs[name].cpu(), ours[name])


def test_links_sampled_on_a_gpu_are_those_of_the_cpu():
    options = {"neg_sampling": NegativeSampling("binary", 2), "batch_size": 50}
    loaders = [LinkNeighborLoader(each, [3, 3], **options) for each in (small_data(), small_data().to("cuda"))]
    for ours, theirs in zip(*loaders, strict=True):
        for name in ("n_id", "e_id", "edge_label_index", "edge_label"):
            assert torch.equal(theirs[name].cpu(), ours[name])


def test_layerwise_on_a_gpu():
    data = small_data(norm=None).to("cuda")
    model = GNN("mrs-dir-sage", 8, 3, 2, in_channels=5).double().to("cuda").eval()
    expected = model(data.x, data.edge_index, data.edge_type)
    torch.testing.assert_close(layerwise(model, data, batch_size=7), expected)


@pytest.mark.parametrize("name", ["mrs-gcn", "mrs-dir-sage", "mrs-gat"])
def test_layerwise_of_a_graph_that_stays_on_the_cpu(name):
    data = small_data(norm=None)
    model = GNN(name, 8, 3, 3, jk="cat", norm="batch", residual=True, in_channels=5).double().eval()
    expected = model(data.x, data.edge_index, data.edge_type)
    found = layerwise(model, data, batch_size=7, device="cuda")
    assert not found.is_cuda
    assert not any(each.is_cuda for each in model.parameters())
    torch.testing.assert_close(found, expected)
