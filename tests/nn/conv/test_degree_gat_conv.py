import math

import pytest
import torch
from torch_geometric.nn import GATConv

from graphprism.nn import DegreeGATConv
from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.testing import molecule


def by_hand(conv, x, edge_index):
    """Loops over heads, nodes and edges; heads are averaged."""
    edges = edge_index.t().tolist()
    degree = [sum(i == node for _, i in edges) for node in range(x.size(0))]
    out = torch.zeros(x.size(0), conv.out_channels, dtype=x.dtype)
    for head in range(conv.heads):
        h = (x @ conv.lin.weight[0]).view(-1, conv.heads, conv.out_channels)[:, head]
        a_s, a_t = (torch.cat([a[0, head], d[head : head + 1]]) for a, d in zip(
            (conv.att_src, conv.att_dst), conv.att_degree, strict=True))  # fmt: skip
        ends = torch.cat([h, torch.tensor(degree, dtype=x.dtype)[:, None]], dim=1)
        for node in range(x.size(0)):
            senders = [j for j, i in edges if i == node]
            logits = [torch.nn.functional.leaky_relu(a_s @ ends[j] + a_t @ ends[node], 0.2) for j in senders]
            for j, share in zip(senders, torch.stack(logits).softmax(0) if logits else (), strict=True):
                out[node] += share * h[j] / conv.heads
    return out + conv.bias


def make(in_channels=5, out_channels=4):
    torch.manual_seed(1)
    graph = molecule(2)
    conv = DegreeGATConv(in_channels, out_channels, heads=2, concat=False).double()
    return conv, torch.randn(graph.num_nodes, in_channels, dtype=torch.double), graph.edge_index


@torch.no_grad()
def test_degree_gat_by_hand():
    conv, x, edge_index = make()
    torch.testing.assert_close(conv(x, edge_index), by_hand(conv, x, edge_index))


@torch.no_grad()
def test_degree_gat_equals_the_padded_layout():
    conv, x, edge_index = make()
    adj = PaddedAdj.build(RelationalAdj(edge_index, num_nodes=x.size(0)), "none", torch.double)
    torch.testing.assert_close(conv(x, adj), conv(x, edge_index))


@torch.no_grad()
def test_degree_gat_without_degrees_is_gat():
    conv, x, edge_index = make()
    conv.att_degree.zero_()
    gat = GATConv(5, 4, heads=2, concat=False, add_self_loops=False).double()
    gat.lin.weight.copy_(conv.lin.weight[0].t())
    gat.att_src.copy_(conv.att_src)
    gat.att_dst.copy_(conv.att_dst)
    torch.testing.assert_close(conv(x, edge_index), gat(x, edge_index))


def test_degree_gat_has_four_parameters_more_and_every_one_gets_a_gradient():
    conv, x, edge_index = make()
    gat = GATConv(5, 4, heads=2, concat=False)
    assert sum(map(torch.numel, conv.parameters())) == sum(map(torch.numel, gat.parameters())) + 4
    conv(x, edge_index).square().sum().backward()
    assert all(each.grad is not None and each.grad.any() for each in conv.parameters())


def test_degree_gat_draws_its_entries_anew():
    conv, _, _ = make(out_channels=3)
    before = conv.att_degree.detach().clone()
    conv.reset_parameters()
    assert not torch.equal(conv.att_degree, before)
    assert conv.att_degree.detach().abs().max() <= math.sqrt(6 / (2 + 3 + 1))


@pytest.mark.parametrize("out_channels", [1, 4])
def test_degree_gat_is_lazy(out_channels):
    _, x, edge_index = make()
    conv = DegreeGATConv(-1, out_channels).double()
    assert conv(x, edge_index).shape == (x.size(0), out_channels)
