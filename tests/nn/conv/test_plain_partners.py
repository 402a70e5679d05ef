"""Equal weights in all relations, and one relation alone, are the plain layer of PyG."""

import copy

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, SimpleConv

from graphprism.nn import MRSConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.testing import assert_equals_plain, tolerance
from tests.nn.conv.cases import GRAPHS, IN, OUT, make_example, mlp
from tests.pairwise import all_pairs

graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
relations = pytest.mark.parametrize("num_relations", [1, 3])


starts = pytest.mark.parametrize("start", ["shared", "independent"])


def fill(weight, value):
    """Puts one matrix, given as PyG holds it (out, in), into every relation."""
    weight.set_(value.detach().t())


@graphs
@relations
@starts
def test_gcn(graph, num_relations, start):
    plain = GCNConv(IN, OUT, add_self_loops=False).double()
    layer = MRSGCNConv(IN, OUT, num_relations=num_relations, start=start).double()
    torch.nn.init.normal_(plain.bias)
    fill(layer.lin, plain.lin.weight)
    layer.bias = plain.bias
    assert_equals_plain(layer, plain, make_example(graph, num_relations))


@graphs
@relations
def test_gcn_normalises_given_weights_on_request(graph, num_relations):
    plain = GCNConv(IN, OUT, add_self_loops=False).double()
    layer = MRSGCNConv(IN, OUT, num_relations=num_relations, normalize=True).double()
    fill(layer.lin, plain.lin.weight)
    example = make_example(graph, num_relations, weighted=True)
    assert_equals_plain(layer, lambda x, edge_index: plain(x, edge_index, example.edge_weight), example)


@all_pairs(
    graph=GRAPHS,
    num_relations=[1, 3],
    aggr=["mean", "sum"],
    options=[{}, {"normalize": True}, {"root_weight": False}, {"project": True}],
)
def test_sage(graph, num_relations, aggr, options):
    plain = SAGEConv(IN, OUT, aggr=aggr, **options).double()
    layer = MRSSAGEConv(IN, OUT, num_relations=num_relations, aggr=aggr, **options).double()
    fill(layer.lin, plain.lin_l.weight)
    layer.bias = plain.lin_l.bias
    if layer.lin_root is not None:
        layer.lin_root = plain.lin_r
    if layer.project is not None:
        layer.project = plain.lin
    assert_equals_plain(layer, plain, make_example(graph, num_relations))


@graphs
@relations
@pytest.mark.parametrize("concat", [True, False])
def test_gat(graph, num_relations, concat):
    plain = GATConv(IN, OUT, heads=2, concat=concat, add_self_loops=False).double()
    layer = MRSGATConv(IN, OUT, num_relations=num_relations, heads=2, concat=concat).double()
    torch.nn.init.normal_(plain.bias)
    fill(layer.lin, plain.lin.weight)
    layer.att_src, layer.att_dst, layer.bias = plain.att_src, plain.att_dst, plain.bias
    assert_equals_plain(layer, plain, make_example(graph, num_relations))


@graphs
def test_gat_with_edge_features(graph):
    plain = GATConv(IN, OUT, heads=2, edge_dim=3, add_self_loops=False).double()
    layer = MRSGATConv(IN, OUT, heads=2, edge_dim=3).double()
    fill(layer.lin, plain.lin.weight)
    layer.att_src, layer.att_dst, layer.att_edge = plain.att_src, plain.att_dst, plain.att_edge
    layer.lin_edge = plain.lin_edge
    example = make_example(graph)
    features = torch.randn(graph.edge_index.size(1), 3, dtype=torch.double)
    ours = layer(example.x, example.edge_index, example.edge_type, edge_attr=features)
    torch.testing.assert_close(ours, plain(example.x, example.edge_index, features), **tolerance(torch.double))


@graphs
def test_gin_with_one_relation(graph):
    layer = MRSGINConv(mlp, num_relations=1, eps=0.5, start="independent").double()
    assert_equals_plain(layer, GINConv(layer.nns.each[0], eps=0.5).double(), make_example(graph, 1))


@graphs
@relations
def test_gin_with_a_shared_start(graph, num_relations):
    plain = GINConv(mlp(), eps=0.5).double()
    layer = MRSGINConv(copy.deepcopy(plain.nn), num_relations=num_relations, eps=0.5).double()
    assert_equals_plain(layer, plain, make_example(graph, num_relations))


@graphs
def test_gin_with_equal_linear_networks(graph):
    # h is linear: sum_r h((1 + eps) x + a_r) = h(3 (1 + eps) x + sum_r a_r), plain with 1 + eps' = 3 (1 + eps)
    layer = MRSGINConv(
        lambda: torch.nn.Linear(IN, OUT, bias=False), num_relations=3, eps=0.5, start="independent"
    ).double()
    for network in layer.nns.each[1:]:
        network.load_state_dict(layer.nns.each[0].state_dict())
    plain = GINConv(torch.nn.Linear(IN, OUT, bias=False), eps=3.5).double()
    plain.nn.load_state_dict(layer.nns.each[0].state_dict())
    assert_equals_plain(layer, plain, make_example(graph))


@graphs
@relations
@pytest.mark.parametrize("gate_per_relation", [False, True])
def test_gated_gcn(graph, num_relations, gate_per_relation):
    layer = MRSGatedGCNConv(
        IN, OUT, num_relations=num_relations, edge_dim=3, gate_per_relation=gate_per_relation, batch_norm=False
    )
    layer = layer.double()
    features = torch.randn(graph.edge_index.size(1), 3, dtype=torch.double)
    a, c, d = layer.lin_root, layer.lin_edge, layer.lin_gate_dst
    b, e = layer.lin_message, layer.lin_gate_src

    def plain(x, edge_index):
        """PyG has no such layer: the formula, node by node."""
        rows = []
        for i in range(x.size(0)):
            numerator, denominator = torch.zeros(OUT).double(), torch.full((OUT,), 1e-6).double()
            for k in (edge_index[1] == i).nonzero().view(-1).tolist():
                x_j = x[edge_index[0, k]]
                gate = (d(x[i]) + x_j @ e.lin()[0] + e.bias()[0] + c(features[k])).sigmoid()
                numerator, denominator = numerator + gate * (x_j @ b.lin()[0] + b.bias()[0]), denominator + gate
            rows.append(a(x[i]) + numerator / denominator)
        return torch.stack(rows) if rows else a(x)

    def ours(x, edge_index, edge_type, edge_weight):
        return layer(x, edge_index, edge_type, edge_weight, edge_attr=features)

    assert_equals_plain(ours, plain, make_example(graph, num_relations))


@graphs
def test_general_form_of_a_mean_is_pyg_simple_conv(graph):
    class Sender(torch.nn.Module):
        def forward(self, x_i, x_j):
            return x_j

    layer = MRSConv(Sender, num_relations=3, aggr="mean", combine=lambda x, message: x + message)
    assert_equals_plain(layer, SimpleConv(aggr="mean", combine_root="sum"), make_example(graph))


@graphs
def test_general_form_writes_mrs_sage(graph):
    sage = MRSSAGEConv(IN, OUT, num_relations=3, root_weight=True, start="independent").double()
    maps = iter(sage.lin().detach())

    class Map(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = next(maps)

        def forward(self, x_i, x_j):
            return x_j @ self.weight

    general = MRSConv(Map, start="independent", aggr="mean", combine=lambda x, m: m + sage.lin_root(x) + sage.bias)
    example = make_example(graph)
    torch.testing.assert_close(example.run(general), example.run(sage), **tolerance(torch.double))
