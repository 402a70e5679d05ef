import pytest
import torch
from torch_geometric.loader import NodeLoader

from graphprism.loader import NeighborSampler
from graphprism.nn import CONVOLUTIONS, GNN
from tests.loader.graphs import small_data
from tests.pairwise import all_pairs

FORMS = {
    "headless": {"in_channels": 5, "encode": False},
    "max": {"in_channels": 5, "encode": False, "jk": "max", "normalize": True},
    "cat": {"in_channels": 5, "jk": "cat", "residual": True},
    "lstm": {"in_channels": 5, "jk": "lstm"},
}


def batches(data, directed, fan_out=(3, 3, 3), **options):
    sampler = NeighborSampler(data, list(fan_out), direction="both" if directed else "in", **options)
    yield from NodeLoader(data, sampler, batch_size=17)


def both_ways(model, batch, **more):
    """Outputs of the seeds with all states of a batch, and with those alone that they need."""
    arguments = (batch.x, batch.edge_index, batch.edge_type)
    hops = {
        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
        "num_sampled_edges_per_hop": batch.num_sampled_edges,
    }
    return model(*arguments, **more)[: batch.batch_size], model(*arguments, **more, **hops)


@all_pairs(form=[*FORMS], name=["mrs-gcn", "mrs-dir-sage", "mrs-gat"], disjoint=[False, True])
def test_seeds_need_no_more_than_their_hops(name, form, disjoint):
    data = small_data(norm=None)
    torch.manual_seed(0)
    model = GNN(name, 8, 3, 3, start="independent", **FORMS[form]).double()
    if name == "mrs-gcn":  # its norm reads degrees, which are those of the whole graph
        data = small_data(norm="sym")
    directed = CONVOLUTIONS[name].directed
    # an edge of a seed that is sampled from its other end, some hops away, is not among those of its own hop
    for batch in batches(data, directed, (-1, -1, -1) if directed else (3, 3, 3), disjoint=disjoint):
        more = {"edge_weight": batch.edge_weight} if name == "mrs-gcn" else {}
        expected, found = both_ways(model, batch, **more)
        torch.testing.assert_close(found, expected)
        gradients = (torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in (expected, found))
        for theirs, ours in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["mrs-gated-gcn", "pyg-rgcn"])
def test_layers_with_states_of_edges_and_of_pyg(name):
    data = small_data(norm=None)
    data.edge_attr = torch.arange(data.num_edges) % 4
    own = {"num_edge_types": 4} if name == "mrs-gated-gcn" else {}
    model = GNN(name, 8, 3, 2, in_channels=5, **own).double().eval()
    for batch in batches(data, False, (4, 4)):
        expected, found = both_ways(model, batch, **({"edge_attr": batch.edge_attr} if own else {}))
        torch.testing.assert_close(found, expected)


def test_more_hops_than_layers_are_fine_and_fewer_are_said():
    data = small_data(norm=None)
    model = GNN("mrs-sage", 8, 3, 2, in_channels=5).double()
    for batch in batches(data, False):
        expected, found = both_ways(model, batch)
        torch.testing.assert_close(found, expected)
    (batch, *_) = batches(data, False, (3,))
    with pytest.raises(ValueError, match="must come together, for 2 hops or more, one for each layer, got"):
        both_ways(model, batch)
    with pytest.raises(ValueError, match="must be None in a network with a readout or without a graph"):
        both_ways(GNN("mrs-sage", 8, 3, 2, in_channels=5, readout="sum").double(), batch)
