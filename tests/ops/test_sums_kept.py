"""Products of a graph so small that a GPU waits for launches, here on the CPU: exact, and looked up once for all."""

import pytest
import torch

import graphprism.ops.mixed_linear as mixed_linear
from graphprism.nn import MRSGCNConv, MRSSAGEConv
from graphprism.ops import RelationalAdj, linear_csr, relational_linear, sums_kept
from graphprism.testing import graph_zoo, tolerance
from tests.ops.cases import make_adj, normal

GRAPHS = graph_zoo()


@pytest.fixture(autouse=True)
def waits_for_launches(monkeypatch):
    for module, name in (
        (linear_csr, "counts_launches"),
        (linear_csr, "waits_for_launches"),
        (mixed_linear, "counts_launches"),
    ):
        monkeypatch.setattr(module, name, lambda *_: True)


@pytest.fixture
def sorted_weights(monkeypatch):
    """A list that grows each time the weights of entries are sorted."""
    found, values = [], RelationalAdj.values
    monkeypatch.setattr(RelationalAdj, "values", lambda *args: found.append(1) or values(*args))
    return found


def in_forward(adj: RelationalAdj) -> RelationalAdj:
    """The same graph as layers make it of tensors on a GPU, with weights that have no gradient."""
    weight = None if adj.edge_weight is None else adj.edge_weight.detach()
    found = RelationalAdj.in_forward(adj.edge_index, adj.edge_type, weight, adj.num_relations, adj.size)
    found.one_pass = True
    return found


def answers(x, weight, adj, impl=None):
    """The product and its gradients."""
    out = relational_linear(x, adj, weight, impl=impl)
    return out, torch.autograd.grad(out.square().sum(), [x, weight])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("relations", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_layer_equals_the_reference(name, relations, weighted):
    adj = in_forward(make_adj(name, relations))
    adj = adj if weighted else adj.with_weight(None)
    for seed, channels in enumerate([(5, 4), (5, 4), (4, 4)]):  # the second one finds what the first one looked up
        x, weight = normal(adj.size[0], channels[0], seed=seed), normal(relations, *channels, seed=seed + 9)
        found, expected = answers(x, weight, adj), answers(x, weight, adj, impl="reference")
        torch.testing.assert_close(found, expected, **tolerance(torch.double))


def test_layers_share_the_rows(sorted_weights):
    adj, weight = in_forward(make_adj("hub")), normal(3, 5, 5)
    x = normal(adj.size[0], 5)
    h = relational_linear(relational_linear(x, adj, weight), adj, weight)
    h.sum().backward()
    assert len(sorted_weights) == 2  # of the incoming and of the outgoing entries


def test_rows_are_those_of_the_weights():
    adj = in_forward(make_adj("hub"))
    x, weight = normal(adj.size[0], 5), normal(3, 5, 4)
    for graph in (adj, adj.with_weight(2 * adj.edge_weight), adj.with_weight(None), adj.transpose(), adj):
        torch.testing.assert_close(answers(x, weight, graph), answers(x, weight, graph, impl="reference"))
    for dtype in (torch.float, torch.double):
        found, narrow = relational_linear(x.to(dtype), adj, weight.to(dtype)), [x.to(dtype), weight.to(dtype)]
        assert found.dtype == dtype
        torch.testing.assert_close(found, relational_linear(narrow[0], adj, narrow[1], impl="reference"))


def test_other_weights_than_those_of_the_graph():
    adj = in_forward(make_adj("hub"))
    x, weight = normal(adj.size[0], 5).detach(), normal(3, 5, 4).detach()
    for own in (adj.edge_weight, adj.edge_weight + 1, None, adj.edge_weight):
        found, sums = sums_kept.sums_kept_forward(x, weight, own, None, adj)
        expected = relational_linear(x, adj.with_weight(own), weight, impl="reference")
        torch.testing.assert_close(found, expected)
        back, _ = sums_kept.sums_kept_backward(found, weight, own, sums, adj, True, False)
        turned = relational_linear(found, adj.with_weight(own).transpose(), weight.transpose(1, 2), impl="reference")
        torch.testing.assert_close(back, turned)


def test_rows_of_learned_weights_are_not_kept():
    adj = in_forward(make_adj("hub"))
    x, weight, learned = normal(adj.size[0], 5), normal(3, 5, 4), adj.edge_weight.clone().requires_grad_()
    graph = adj.with_weight(learned)
    relational_linear(x, graph, weight).sum().backward()
    with torch.no_grad():
        learned.mul_(3)  # as an optimiser does between two steps
    torch.testing.assert_close(answers(x, weight, graph), answers(x, weight, graph, impl="reference"))


def test_the_sums_are_those_of_forward(monkeypatch):
    adj = in_forward(make_adj("hub"))
    x, weight = normal(adj.size[0], 5), normal(3, 5, 4)
    calls, sum_rows = [], sums_kept.embedding_bag
    monkeypatch.setattr(sums_kept, "embedding_bag", lambda *args: calls.append(1) or sum_rows(*args))
    answers(x, weight, adj)
    assert len(calls) == 2  # one forward, and backward only along the reversed edges


@pytest.mark.parametrize("name", GRAPHS)
def test_a_network_with_a_shared_start_has_the_gradients_of_one_in_blocks(monkeypatch, name):
    torch.manual_seed(0)
    convs = torch.nn.ModuleList([MRSGCNConv(5, 4, decay=3.0), MRSGCNConv(4, 4, decay=3.0), MRSSAGEConv(4, 2)]).double()
    for parameter in convs.parameters():
        torch.nn.init.normal_(parameter)
    adj = in_forward(make_adj(name)).with_weight(None)
    x = normal(adj.size[0], 5)

    def gradients(graph):
        h = x
        for conv in convs:
            h = conv(h, graph)
        return h, torch.autograd.grad(h.square().sum(), [x, *convs.parameters()])

    found = gradients(adj)
    for module in (linear_csr, mixed_linear):
        monkeypatch.setattr(module, "counts_launches", lambda *_: False)
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: False)
    plain = RelationalAdj(adj.edge_index, adj.edge_type, num_relations=3, num_nodes=adj.size)
    torch.testing.assert_close(found, gradients(plain), **tolerance(torch.double))
