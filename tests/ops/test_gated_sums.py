"""Sums behind gates in blocks of edges: against the definition, in the layer, and their gradients."""

import pytest
import torch

from graphprism.nn import MRSGatedGCNConv
from graphprism.ops import RelationalAdj
from graphprism.ops import gated_sums as module
from graphprism.ops.gated_sums import BACKENDS, gated_sums
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS, make_adj, normal

EXACT = tolerance(torch.double)


def inputs_for(adj, gates, has_edges):
    sizes = [(adj.size[1], 4), (adj.size[0], gates, 4), (adj.size[0], 3, 4), *([(adj.num_edges, 4)] * has_edges)]
    return [normal(*size, seed=seed) for seed, size in enumerate(sizes)]


@pytest.mark.parametrize("impl", BACKENDS)
def test_by_hand(impl):
    adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
    zero = torch.zeros(3, 1)
    value = torch.tensor([[[2.0], [9.0]], [[9.0], [4.0]], [[9.0], [9.0]]])
    numerator, denominator = gated_sums(zero, zero[:, None], value, adj, impl=impl)
    assert numerator.flatten().tolist() == [0, 0, 3]
    assert denominator.flatten().tolist() == [0, 0, 1]


@pytest.mark.parametrize("block", [1, 1 << 18])
@pytest.mark.parametrize("has_edges", [False, True])
@pytest.mark.parametrize("gates", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_blocks_give_the_definition(name, gates, has_edges, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    adj = make_adj(name)
    adj = adj.with_weight(adj.edge_weight.detach() if gates == 1 else None)
    inputs = inputs_for(adj, gates, has_edges)
    rows = [*inputs[:3], adj, *inputs[3:]]
    found, expected = (gated_sums(*rows, impl=impl) for impl in ("csr", "reference"))
    torch.testing.assert_close(found, expected, **EXACT)
    grads = normal(*found[0].shape, seed=7).detach(), normal(*found[0].shape, seed=8).detach()
    torch.testing.assert_close(
        *(torch.autograd.grad(sums, inputs, grads, retain_graph=True) for sums in (found, expected)), **EXACT
    )


def test_second_derivatives():
    adj = make_adj("multi-edges").with_weight(None)
    inputs = inputs_for(adj, 1, True)
    assert torch.autograd.gradgradcheck(lambda *rows: gated_sums(*rows[:3], adj, rows[3], impl="csr"), inputs)


def test_batched_gradients():
    adj = make_adj("multi-edges").with_weight(None)
    inputs = inputs_for(adj, 1, True)
    sums = gated_sums(*inputs[:3], adj, inputs[3], impl="csr")
    grads = [normal(2, *each.shape, seed=7).detach() for each in sums]
    found = torch.autograd.grad(sums, inputs, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(sums, inputs, each, retain_graph=True) for each in zip(*grads, strict=True)]
    torch.testing.assert_close(found, tuple(map(torch.stack, zip(*expected, strict=True))), **EXACT)


def test_differentiable_gradients_of_inputs_that_depend_on_each_other():
    adj, found = make_adj("random").with_weight(None), []
    start = normal(adj.size[0], 3, 4)
    for impl in ("reference", "csr"):
        sender = start * 1.5
        sums = gated_sums(sender[:, 0], sender, sender.sin(), adj, impl=impl)
        (grad,) = torch.autograd.grad(sums[0].mul(sums[1]).sum(), start, create_graph=True)
        found.append((grad, *torch.autograd.grad(grad.square().sum(), start)))
    torch.testing.assert_close(*found, **EXACT)


def test_soft_types_are_refused():
    adj = make_adj("random", soft=True)
    with pytest.raises(ValueError, match=r"`adj` must have one relation for each edge, got soft types"):
        gated_sums(*inputs_for(adj, 1, False), adj)


@pytest.mark.parametrize("gate_per_relation", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 5])
def test_gated_gcn_conv_in_blocks_is_the_one_by_edge(edge_dim, gate_per_relation, monkeypatch):
    adj = make_adj("random").with_weight(None)
    conv = MRSGatedGCNConv(6, 4, edge_dim=edge_dim, gate_per_relation=gate_per_relation, start="independent").double()
    x, features = normal(30, 6), None if edge_dim is None else normal(200, 5)
    wanted = [x, *(parameter for name, parameter in conv.named_parameters() if "norm_edge" not in name)]
    results = []
    for least in (1 << 30, 0):
        monkeypatch.setattr(module, "_LEAST", least)
        assert module.sums_in_blocks_pay(adj, 4) == (least == 0)
        out = conv(x, adj, edge_attr=features)
        results.append([out, *torch.autograd.grad(out.pow(3).sum(), wanted)])
    torch.testing.assert_close(*results, **EXACT)
