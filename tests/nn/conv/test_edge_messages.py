"""MRS-GCNE and MRS-GINE: messages with features of edges."""

import pytest
import torch
from torch_geometric.nn import GINEConv

from graphprism.nn import MRSGCNEConv, MRSGINEConv
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, OUT, RELATIONS, make_example, parted

EXACT = tolerance(torch.double)
# the size that is added as it is, and another one
SIZES = {MRSGCNEConv: (OUT, 3), MRSGINEConv: (IN, 3)}
CASES = [(layer, size) for layer, sizes in SIZES.items() for size in sizes]
cases = pytest.mark.parametrize(("layer", "size"), CASES)
named = pytest.mark.parametrize("graph", ["directed", "multi-edges", "self-loops", "random"])


def make(layer, size, relations=RELATIONS):
    torch.manual_seed(0)
    return parted(lambda r: layer(IN, OUT, num_relations=r, edge_dim=size, start="shared", decay=3.0))(
        relations
    ).double()


def arguments(example):
    return example.x, example.edge_index, example.edge_type, example.edge_weight


def features(example, size):
    return torch.randn(example.edge_index.size(1), size, generator=torch.Generator().manual_seed(1)).double()


@named
@cases
def test_formula_edge_by_edge(layer, size, graph):
    example, conv = make_example(GRAPHS[graph], weighted=True), make(layer, size)
    attr = features(example, size)
    rows = attr if conv.lin_edge is None else conv.lin_edge(attr)
    weights, total = conv.lin(), torch.zeros(example.x.size(0), OUT).double()
    for number, (source, target) in enumerate(example.edge_index.t().tolist()):
        matrix, weight = weights[example.edge_type[number]], example.edge_weight[number]
        if layer is MRSGCNEConv:
            total[target] += weight * (example.x[source] @ matrix + rows[number]).relu()
        else:
            total[target] += weight * (example.x[source] + rows[number]).relu() @ matrix
    if layer is MRSGCNEConv:
        expected = total + conv.bias
    else:
        expected = conv.lin_out((total + (1 + conv.eps) * example.x @ weights.mean(0) + conv.bias).relu())
    torch.testing.assert_close(conv(*arguments(example), edge_attr=attr), expected, **EXACT)


@cases
@pytest.mark.parametrize("soft", [False, True])
def test_numbering_and_parts(layer, size, soft):
    example, conv = make_example(GRAPHS["random"], soft=soft), make(layer, size)
    attr, nodes = features(example, size), torch.randperm(example.x.size(0))
    order = torch.randperm(attr.size(0))
    out = conv(*arguments(example), edge_attr=attr)
    moved = conv(example.x[nodes], nodes.argsort()[example.edge_index][:, order], example.edge_type[order],
                 edge_attr=attr[order])  # fmt: skip
    torch.testing.assert_close(moved, out[nodes], **EXACT)
    two = torch.cat([example.edge_index, example.edge_index + example.x.size(0)], 1)
    both = conv(torch.cat([example.x, 2 * example.x]), two, torch.cat([example.edge_type] * 2),
                edge_attr=torch.cat([attr, -attr]))  # fmt: skip
    second = conv(2 * example.x, example.edge_index, example.edge_type, edge_attr=-attr)
    torch.testing.assert_close(both, torch.cat([out, second]), **EXACT)


@cases
def test_every_way_to_give_the_graph_is_the_same(layer, size):
    example, conv = make_example(GRAPHS["random"], weighted=True), make(layer, size)
    attr = features(example, size)
    adj = RelationalAdj(*arguments(example)[1:], num_relations=RELATIONS, num_nodes=example.x.size(0))
    out = conv(*arguments(example), edge_attr=attr)
    torch.testing.assert_close(conv(example.x, adj, edge_attr=attr), out, **EXACT)
    seen = []
    conv.register_message_forward_hook(lambda *args: seen.append(args[-1]))
    torch.testing.assert_close(conv(*arguments(example), edge_attr=attr), out, **EXACT)
    assert len(seen) == 1


def test_one_relation_of_gine_is_that_of_pyg():
    example, conv = make_example(GRAPHS["random"], relations=1), make(MRSGINEConv, IN, relations=1)
    first, last = torch.nn.Linear(IN, OUT).double(), torch.nn.Linear(OUT, OUT).double()
    pyg, attr = GINEConv(torch.nn.Sequential(first, torch.nn.ReLU(), last)), features(example, IN)
    with torch.no_grad():
        first.weight.copy_(conv.lin()[0].t())
        first.bias.copy_(conv.bias)
        last.load_state_dict(conv.lin_out.state_dict())
    found = conv(example.x, example.edge_index, edge_attr=attr)
    torch.testing.assert_close(found, pyg(example.x, example.edge_index, attr), **EXACT)


@pytest.mark.parametrize("layer", SIZES)
def test_shared_start_is_the_plain_layer(layer):
    example = make_example(GRAPHS["random"])
    attr = features(example, 3)
    torch.manual_seed(0)
    plain = layer(IN, OUT, num_relations=1, edge_dim=3).double()
    torch.manual_seed(0)
    split = layer(IN, OUT, num_relations=RELATIONS, edge_dim=3).double()
    torch.testing.assert_close(
        split(*arguments(example), edge_attr=attr), plain(example.x, example.edge_index, edge_attr=attr), **EXACT
    )


@cases
def test_gradients(layer, size):
    example, conv = make_example(GRAPHS["multi-edges"], weighted=True), make(layer, size)
    inputs = [example.x.requires_grad_(), features(example, size).requires_grad_()]
    assert torch.autograd.gradcheck(lambda x, a: conv(x, *arguments(example)[1:], edge_attr=a), inputs)


@cases
def test_features_must_come_where_the_layer_has_them(layer, size):
    example, conv = make_example(GRAPHS["random"]), make(layer, size)
    with pytest.raises(ValueError, match="`edge_attr` must be given when `edge_dim` is set, got None"):
        conv(*arguments(example))
    with pytest.raises(ValueError, match=rf"`edge_attr` must have shape \[40, {size}\]"):
        conv(*arguments(example), edge_attr=features(example, 7))
    without = layer(IN, OUT).double()
    with pytest.raises(ValueError, match="`edge_attr` must be None, got a tensor"):
        without(*arguments(example), edge_attr=features(example, size))
