"""`mixed_linear`: the products of a shared start in one node of autograd."""

import copy

import pytest
import torch

import graphprism.nn.conv.mrs_gcn_conv as module
import graphprism.ops.mixed_linear as op
from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, relational_linear
from graphprism.ops.mix_rows import BACKENDS, mix, mix_rows
from graphprism.ops.mixed_linear import mixed_linear, spread
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


@pytest.fixture(params=[False, True], ids=["matrices", "graph"])
def mixes(request, monkeypatch):
    """What is mixed, wherever it can be: the matrices, or the graph as on a GPU that waits for launches."""

    def as_asked(adj, matrix):
        waits = adj.edge_weight is not None and adj.edge_weight.requires_grad
        return request.param and not waits

    monkeypatch.setattr(op, "_spreading_pays", as_asked)
    return "graph" if request.param else "matrices"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("relations", [2, 3, 7])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.usefixtures("mixes")
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
@pytest.mark.usefixtures("mixes")
def test_second_derivatives(weighted):
    layer, adj = make_layer(), make_graph(GRAPHS["hub"], weighted=weighted)
    x = torch.randn(adj.size[0], 5, dtype=torch.double, requires_grad=True)

    def run(x, common, deviation):
        return mixed_linear(x, adj, layer.lin.mixture()._replace(common=common, deviation=deviation))

    inputs = (x, layer.lin.common, layer.lin.deviation)
    assert torch.autograd.gradgradcheck(run, inputs)
    with_graph, without = (
        torch.autograd.grad(run(*inputs).square().sum(), inputs, create_graph=c) for c in (True, False)
    )
    torch.testing.assert_close(with_graph, without, **tolerance(torch.double))


@pytest.mark.parametrize("frozen", ["common", "deviation"])
@pytest.mark.usefixtures("mixes")
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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_mixed_graph_holds_every_edge_in_every_relation(dtype):
    layer, adj = make_layer(), make_graph(GRAPHS["hub"])
    types, weight = adj.edge_type.to(dtype), torch.rand(adj.num_edges, dtype=torch.double)
    adj = RelationalAdj(adj.edge_index, types, weight, num_relations=3, num_nodes=adj.size)
    mixture, mixed = layer.lin.mixture(), spread(adj, layer.lin.mixture())
    for relation, factors in enumerate(torch.cat([torch.ones(3, 1), mixture.columns], dim=1).t()):
        of_relation = mixed.edge_type == relation
        assert torch.equal(mixed.edge_index[:, of_relation], adj.edge_index)
        torch.testing.assert_close(mixed.edge_weight[of_relation], adj.edge_weight * factors[adj.edge_type.long()])


def in_forward(graph, monkeypatch, **changes):
    """A graph as layers make it of tensors on a GPU, counted as one that waits for launches."""
    monkeypatch.setattr(op, "counts_launches", lambda *_: True)
    adj = make_graph(graph)
    adj.one_pass = True
    for name, value in changes.items():
        setattr(adj, name, value)
    return adj


def test_layers_share_one_mixed_graph(monkeypatch):
    layers, calls = [make_layer(), make_layer(channels=(4, 4))], []
    adj = in_forward(GRAPHS["hub"], monkeypatch).normalized("sym", torch.double)
    monkeypatch.setattr(op, "mix_rows", lambda *_: pytest.fail("the matrices were mixed"))
    with_edges = RelationalAdj.with_edges
    monkeypatch.setattr(RelationalAdj, "with_edges", lambda *args: calls.append(1) or with_edges(*args))
    x = torch.randn(adj.size[0], 5, dtype=torch.double)
    for layer in layers:
        x = mixed_linear(x, adj, layer.lin.mixture())
    x.sum().backward()
    assert calls == [1]
    mixed_linear(x.detach(), adj, layers[1].lin.mixture()._replace(decay=5.0))
    assert calls == [1, 1]  # of another decay there is another one


def test_graph_is_mixed_only_where_that_pays(monkeypatch):
    graph, matrix = GRAPHS["hub"], torch.empty(5, 4)
    pays = op._spreading_pays
    assert pays(in_forward(graph, monkeypatch), matrix)
    assert not pays(in_forward(graph, monkeypatch, one_pass=False), matrix)
    edges = make_graph(graph).num_edges
    assert not pays(in_forward(graph, monkeypatch, edge_type=torch.rand(edges, 3)), matrix)
    assert not pays(in_forward(graph, monkeypatch, edge_weight=torch.rand(edges).requires_grad_()), matrix)
    asked = []
    monkeypatch.setattr(op, "counts_launches", lambda _, *sizes: bool(asked.append(sizes)))
    adj = make_graph(graph)
    adj.one_pass = True
    assert not pays(adj, matrix)
    assert asked == [(3 * max(edges, adj.size[1]), 5, 4)]
