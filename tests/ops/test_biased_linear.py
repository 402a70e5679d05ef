"""`biased_linear` and `mixed_linear` with a bias: the product plus the bias, and its gradients, in one node."""

import pytest
import torch

from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, linear_csr, relational_linear
from graphprism.ops.mix_rows import mix
from graphprism.ops.mixed_linear import biased_linear, mixed_linear
from graphprism.testing import graph_zoo, tolerance
from tests.ops.cases import make_adj, normal

GRAPHS = graph_zoo()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_equals_product_plus_bias(monkeypatch, graph, mixed, kept):
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: kept)
    torch.manual_seed(0)
    edges, nodes = GRAPHS[graph].edge_index, GRAPHS[graph].num_nodes
    adj = RelationalAdj(edges, torch.randint(3, (edges.size(1),)), num_relations=3, num_nodes=nodes)
    layer = MRSGCNConv(5, 4, start="shared" if mixed else "independent", decay=3.0).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(nodes, 5, dtype=torch.double, requires_grad=True)
    leaves = [x, *layer.parameters()]

    def ours():
        if mixed:
            return mixed_linear(x, adj, layer.lin.mixture(), layer.bias)
        return biased_linear(x, adj, layer.lin.weight, layer.bias)

    weight = mix(*layer.lin.mixture()[:3]) if mixed else layer.lin.weight
    expected = relational_linear(x, adj, weight, impl="reference") + layer.bias
    assert ours().grad_fn.name() == ("_MixedLinearBackward" if mixed else "_RelationalLinearBackward")
    found = [torch.autograd.grad(out.square().sum(), leaves) for out in (ours(), expected)]
    torch.testing.assert_close(ours(), expected, **tolerance(torch.double))
    torch.testing.assert_close(*found, **tolerance(torch.double))


def test_second_derivatives():
    torch.manual_seed(0)
    adj = RelationalAdj(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 0]), num_relations=2, num_nodes=3)
    inputs = [torch.randn(*size, dtype=torch.double, requires_grad=True) for size in ((3, 2), (2, 2, 3), (3,))]
    assert torch.autograd.gradgradcheck(lambda x, weight, bias: biased_linear(x, adj, weight, bias).square(), inputs)


def test_bias_without_a_gradient():
    adj = RelationalAdj(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    x, bias = torch.randn(2, 3, requires_grad=True), torch.randn(4)
    weight = torch.randn(1, 3, 4)
    biased_linear(x, adj, weight, bias).sum().backward()
    torch.testing.assert_close(x.grad, (torch.ones(2, 4) @ weight[0].t()))


@pytest.mark.parametrize("start", ["shared", "independent"])
def test_batched_gradients_of_a_layer_are_those_of_each(start):
    adj = make_adj("random").with_weight(None)
    conv, x = MRSGCNConv(4, 3, start=start).double(), normal(adj.size[0], 4)
    out = conv(x, adj)
    grads = normal(2, *out.shape, seed=1).detach()
    (found,) = torch.autograd.grad(out, x, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(out, x, each, retain_graph=True)[0] for each in grads]
    torch.testing.assert_close(found, torch.stack(expected))


def test_batched_gradients_of_a_graph_of_several_blocks(monkeypatch):
    monkeypatch.setattr("graphprism.ops.csr._CPU_BLOCK_BYTES", 64)
    adj = make_adj("random")
    leaves = [normal(adj.size[0], 4), normal(3, 4, 5, seed=1), normal(5, seed=2), adj.edge_weight]
    out = biased_linear(leaves[0], adj, *leaves[1:3])
    grads = normal(2, *out.shape, seed=3).detach()
    assert not adj.outgoing.is_one_block(grads[0])
    found = torch.autograd.grad(out, leaves, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(out, leaves, each, retain_graph=True) for each in grads]
    for ours, theirs in zip(found, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(ours, torch.stack(theirs))


def test_backends_are_chosen_again_on_another_device(monkeypatch):
    """A graph that was saved on a GPU and loaded on a CPU keeps what it has cached."""
    adj, weight = make_adj("random"), normal(3, 4, 5)
    for name, choose in (("forward", linear_csr._forward_name), ("backward", linear_csr.backward_name)):
        monkeypatch.setattr(linear_csr, f"_choose_{name}", lambda x, *_: x.device.type)
        for device in ("cpu", "meta"):
            assert choose(torch.empty(7, 4, dtype=torch.double, device=device), weight, adj) == device


def test_biased_linear_names_what_does_not_fit():
    adj, bias = make_adj("random"), torch.zeros(3, dtype=torch.double)
    with pytest.raises(TypeError, match=r"`x` must be torch.float32 as `weight`, got torch.float64"):
        biased_linear(normal(adj.size[0], 4), adj, torch.zeros(3, 4, 3), bias)
