"""`mixed_linear`: the products of a shared start in one node of autograd."""

import copy

import pytest
import torch

import graphprism.nn.conv.mrs_gcn_conv as module
from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, relational_linear
from graphprism.ops.mix_rows import BACKENDS, mix, mix_rows
from graphprism.ops.mixed_linear import mixed_linear
from graphprism.testing import graph_zoo, tolerance

GRAPHS = graph_zoo()


def make_layer(relations=3, channels=(5, 4)):
    torch.manual_seed(0)
    layer = MRSGCNConv(*channels, num_relations=relations, decay=3.0).double()
    torch.nn.init.normal_(layer.lin.deviation)
    return layer


def make_graph(graph, relations=3, weighted=False):
    edges = graph.edge_index
    torch.manual_seed(1)
    types = torch.randint(relations, (edges.size(1),))
    weight = torch.rand(edges.size(1), dtype=torch.double, requires_grad=True) if weighted else None
    return RelationalAdj(edges, types, weight, num_relations=relations, num_nodes=graph.num_nodes)


def gradients(layer, x, adj, linear):
    mixture = layer.lin.mixture()
    out = linear(x, adj, mixture)
    inputs = [x, layer.lin.common, layer.lin.deviation, *([adj.edge_weight] if adj.edge_weight is not None else [])]
    return out, torch.autograd.grad((out * torch.linspace(1, 2, out.numel()).view_as(out)).sum(), inputs)


def by_nodes(x, adj, mixture):
    return relational_linear(x, adj, mix(*mixture[:3]), impl="reference")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("relations", [2, 3, 7])
@pytest.mark.parametrize("graph", GRAPHS)
def test_equals_the_reference(graph, relations, weighted):
    layer, adj = make_layer(relations), make_graph(GRAPHS[graph], relations, weighted)
    x = torch.randn(adj.size[0], 5, dtype=torch.double, requires_grad=True)
    ours, expected = (gradients(layer, x, adj, linear) for linear in (mixed_linear, by_nodes))
    torch.testing.assert_close(ours, expected, **tolerance(torch.double))


def test_is_one_node_of_autograd():
    layer, adj = make_layer(), make_graph(GRAPHS["hub"])
    out = mixed_linear(torch.randn(adj.size[0], 5, dtype=torch.double), adj, layer.lin.mixture())
    names = {type(node).__name__ for node, _ in out.grad_fn.next_functions if node is not None}
    assert names == {"AccumulateGrad"}


@pytest.mark.parametrize("weighted", [False, True])
def test_second_derivatives(weighted):
    layer, adj = make_layer(), make_graph(GRAPHS["hub"], weighted=weighted)
    x = torch.randn(adj.size[0], 5, dtype=torch.double, requires_grad=True)

    def run(x, common, deviation):
        return mixed_linear(x, adj, layer.lin.mixture()._replace(common=common, deviation=deviation))

    assert torch.autograd.gradgradcheck(run, (x, layer.lin.common, layer.lin.deviation))


@pytest.mark.parametrize("frozen", ["common", "deviation"])
def test_frozen_part_gets_no_gradient(frozen):
    layer, adj = make_layer(), make_graph(GRAPHS["hub"])
    getattr(layer.lin, frozen).requires_grad_(False)
    layer(torch.randn(adj.size[0], 5, dtype=torch.double), adj).sum().backward()
    assert [name for name, p in layer.lin.named_parameters() if p.grad is None] == [frozen]


def test_layer_that_is_watched_calls_its_weight():
    layer, adj, seen = make_layer(), make_graph(GRAPHS["hub"]), []
    x = torch.randn(adj.size[0], 5, dtype=torch.double)
    expected = layer(x, adj)
    layer.lin.register_forward_hook(lambda *_: seen.append(1))
    torch.testing.assert_close(layer(x, adj), expected, **tolerance(torch.double))
    assert seen == [1]


@pytest.mark.parametrize("options", [{"start": "independent"}, {"deviation": "diagonal"}, {"decay": 0.0}])
def test_other_weights_are_no_mixture(options):
    assert MRSGCNConv(5, 4, num_relations=3, **options).lin.mixture() is None
    assert MRSGCNConv(5, 4, num_relations=70).lin.mixture() is None
    assert MRSGCNConv(-1, 4, num_relations=3).lin.mixture() is None


def test_gradients_in_place_do_not_mix():
    layer, adj = make_layer(), make_graph(GRAPHS["hub"])
    x = torch.randn(adj.size[0], 5, dtype=torch.double)
    layer(x, adj).sum().backward()
    first = copy.deepcopy([layer.lin.common.grad, layer.lin.deviation.grad])
    layer(x, adj).sum().backward()  # added up in place
    layer.lin.common.grad.zero_()
    torch.testing.assert_close(layer.lin.deviation.grad, 2 * first[1])


def test_autocast_multiplies_in_the_lower_precision():
    layer, adj = make_layer().float(), make_graph(GRAPHS["hub"])
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(adj.size[0], 5), adj).dtype == layer.bias.dtype
        assert layer.messages(torch.randn(adj.size[0], 5), adj).dtype == torch.bfloat16


def test_layer_takes_it(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "mixed_linear", lambda *args: calls.append(1) or mixed_linear(*args))
    layer, adj = make_layer(), make_graph(GRAPHS["hub"])
    layer(torch.randn(adj.size[0], 5, dtype=torch.double), adj)
    assert calls == [1]


def test_mix_rows_takes_the_kernel_for_few_terms_only(monkeypatch):
    fits = []
    monkeypatch.setattr(BACKENDS, "kernel_fits", lambda device, found: fits.append(found(None)))
    for terms in (0, 2, 9, 100):
        mix_rows(torch.ones(3, terms), torch.ones(terms, 4))
    assert fits == [True, True, True, False]
