"""Layers on a GPU give what they give on the CPU."""

import copy

import pytest
import torch

from graphprism.nn import MRSGCNConv
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, LAYERS, make_example, make_layer

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("graph", ["random", "hub", "no-edges"])
def test_outputs_and_gradients(name, graph):
    example, layer = make_example(GRAPHS[graph]), make_layer(name)
    twin = copy.deepcopy(layer).cuda()
    expected = example.run(layer)
    out = twin(example.x.cuda(), example.edge_index.cuda(), example.edge_type.cuda())
    torch.testing.assert_close(out.cpu(), expected, **tolerance(torch.double))
    for ours, theirs in ((twin, out), (layer, expected)):
        theirs.square().sum().backward()
        assert any(p.grad is not None for p in ours.parameters())
    for a, b in zip(twin.parameters(), layer.parameters(), strict=True):
        if b.grad is not None:
            torch.testing.assert_close(a.grad.cpu(), b.grad, **tolerance(torch.double))


def test_shared_start_mixes_the_graph_of_small_tensors(monkeypatch):
    example = make_example(GRAPHS["random"])
    layer = MRSGCNConv(example.x.size(1), 4, num_relations=3, decay=3.0).double()
    torch.nn.init.normal_(layer.lin.deviation)
    twin = copy.deepcopy(layer).cuda()
    expected = example.run(layer)
    monkeypatch.setattr("graphprism.ops.mixed_linear.mix_rows", lambda *_: pytest.fail("the matrices were mixed"))
    out = twin(example.x.cuda(), example.edge_index.cuda(), example.edge_type.cuda())
    torch.testing.assert_close(out.cpu(), expected, **tolerance(torch.double))
