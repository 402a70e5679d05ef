"""Relations that differ by a factor for each output channel."""

import pytest
import torch
from torch_geometric.nn import GCN, GCNConv, TransformerConv

from graphprism.convert import to_mrs
from graphprism.nn import GNN, MRSGCNConv, MRSGINConv, RelationalWeight
from graphprism.nn.conv.relational_weight import Together, contrasts
from tests.nn.conv.cases import GRAPHS, IN, OUT, make_example

EXAMPLE = make_example(GRAPHS["random"])


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_matrices_by_hand():
    weight = RelationalWeight(2, 2, 2, decay=3.0, deviation="diagonal")
    with torch.no_grad():
        weight.common.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        weight.deviation.copy_(torch.tensor([[2**0.5, 0.0]]))  # contrast (1, -1) / sqrt(2), scale 1 / 2
    expected = torch.tensor([[[1.5, 2.0], [4.5, 4.0]], [[0.5, 2.0], [1.5, 4.0]]])
    torch.testing.assert_close(weight(), expected)


@pytest.mark.parametrize("relations", [2, 9, 70])
@pytest.mark.parametrize("largest", [0, 1000])
def test_many_relations_need_no_matrix(relations, largest, monkeypatch):
    monkeypatch.setattr("graphprism.nn.conv.relational_weight._MATRIX", largest)
    deviation, common = torch.randn(relations - 1, 2).double(), torch.randn(4, 2).double()
    expected = common * (1 + contrasts(relations) / 2 @ deviation)[:, None]
    together = Together(relations, 3.0).double()
    torch.testing.assert_close(together(common, deviation), expected)
    for ours, theirs in zip(together.apart(expected, "diagonal"), (common, deviation), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(together(common.t(), deviation, dim=0), expected.transpose(1, 2))


def test_parameters_are_few():
    plain = MRSGCNConv(100, 16, num_relations=1)
    split = MRSGCNConv(100, 16, num_relations=3, deviation="diagonal")
    assert parameters(split) == parameters(plain) + 2 * 16


def test_lazy_layer_takes_its_size_from_the_first_input():
    layer = MRSGCNConv(-1, OUT, deviation="diagonal").double()
    EXAMPLE.run(layer)
    assert layer.lin.deviation.shape == (2, OUT)


@pytest.mark.parametrize("make", [MRSGCNConv, lambda *_, **kw: MRSGINConv(torch.nn.Linear(IN, OUT), **kw)])
def test_relations_that_start_apart_have_none(make):
    with pytest.raises(ValueError, match='`deviation` must be "full" with start="independent"'):
        make(IN, OUT, start="independent", deviation="diagonal")
    with pytest.raises(ValueError, match="`deviation` must be one of"):
        make(IN, OUT, deviation="rank")


def test_network_of_equal_budget_keeps_its_width():
    def make(width):
        return GCN(50, width, num_layers=2, out_channels=7)

    full = to_mrs(make, budget="equal", width=32)
    diagonal = to_mrs(make, budget="equal", width=32, deviation="diagonal")
    assert (full.model.hidden_channels, diagonal.model.hidden_channels) == (10, 30)
    assert parameters(diagonal) <= parameters(make(32))


def test_generic_layer_scales_output_channels():
    conv = TransformerConv(8, 6, heads=2)
    split = to_mrs(conv, deviation="diagonal").model
    named = dict(zip(split.names, split.deviations, strict=True))
    assert named["lin_key.weight"].shape == (2, 12)
    assert named["lin_key.bias"].shape == (2, 12)
    x, edges = torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    torch.testing.assert_close(to_mrs(conv, deviation="diagonal")(x, edges), conv(x, edges))


def test_state_of_pyg_gcn_loads():
    plain = GCNConv(IN, OUT, add_self_loops=False).double()
    layer = MRSGCNConv(IN, OUT, deviation="diagonal").double()
    layer.load_state_dict(plain.state_dict())
    torch.testing.assert_close(EXAMPLE.run(layer), plain(EXAMPLE.x, EXAMPLE.edge_index))


def test_relations_part_in_training():
    model = GNN("mrs-gcn", 8, 2, 3, in_channels=IN, deviation="diagonal", decay=1.0).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    target = torch.sin(torch.arange(24, dtype=torch.double)).view(12, 2)
    for _ in range(20):
        optimizer.zero_grad()
        (EXAMPLE.run(model) - target).square().sum().backward()
        optimizer.step()
    weight = model.convs[0].lin().detach()
    assert (weight - weight.mean(dim=0)).abs().max() > 0.01
