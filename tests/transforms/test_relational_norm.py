import pytest
import torch
from torch_geometric.data import Batch, Data

from graphprism.nn import MRSGCNConv, MRSSAGEConv
from graphprism.testing import molecules, random_graph
from graphprism.transforms import RelationalNorm, SplitEdges

DATA = [Data(torch.randn(g.num_nodes, 4), g.edge_index) for g in molecules(3)]


@pytest.mark.parametrize(("norm", "layer"), [("sym", MRSGCNConv(4, 3)), ("mean", MRSSAGEConv(4, 3))])
def test_is_what_the_layer_does_by_itself(norm, layer):
    data = SplitEdges("degree")(DATA[0])
    prepared = RelationalNorm(norm)(data)
    ours = layer(prepared.x, prepared.edge_index, prepared.edge_type, prepared.edge_weight)
    torch.testing.assert_close(ours, layer(data.x, data.edge_index, data.edge_type))


@pytest.mark.parametrize("norm", ["sym", "dir", "mean", "none"])
def test_before_batching_is_after_batching(norm):
    transform = RelationalNorm(norm)
    parts = Batch.from_data_list([transform(data) for data in DATA])
    torch.testing.assert_close(parts.edge_weight, transform(Batch.from_data_list(DATA)).edge_weight)


def test_multiplies_weights_that_are_there():
    graph = random_graph(6, 20)
    data = Data(edge_index=graph.edge_index, num_nodes=6, edge_weight=torch.rand(20))
    total = torch.zeros(6).index_add(0, graph.edge_index[1], data.edge_weight)
    torch.testing.assert_close(RelationalNorm("mean")(data).edge_weight, data.edge_weight / total[graph.edge_index[1]])


def test_bad_input():
    with pytest.raises(ValueError, match=r"`norm` must be one of \['sym', 'dir', 'mean', 'none'\], got 'row'"):
        RelationalNorm("row")
    assert repr(RelationalNorm("dir")) == "RelationalNorm('dir')"
