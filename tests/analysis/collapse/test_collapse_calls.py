import math
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GCN,
    DirGNNConv,
    GCNConv,
    HeteroConv,
    MessagePassing,
    SAGEConv,
)

import graphprism as gp
from graphprism.analysis.collapse import collapse, rank_one_distance
from graphprism.nn.conv import MRSGatedGCNConv, MRSGCNConv

from .setting import build, classes, ring


class Nested(MessagePassing):
    def __init__(self):
        super().__init__()
        self.inner = GCNConv(4, 4)

    def forward(self, x, edge_index):
        return self.inner(x, edge_index) + x


class Shared(torch.nn.Module):
    """One convolution inside another, called three times, then one in both directions."""

    def __init__(self):
        super().__init__()
        self.conv = Nested()
        self.both = DirGNNConv(SAGEConv(4, 3))

    def forward(self, data):
        h = data.x
        for _ in range(3):
            h = self.conv(h, data.edge_index)
        data.x = None
        return self.both(h, data.edge_index)


def test_outermost_convolutions_and_every_call():
    data = ring()
    report = collapse(build(Shared), data)
    assert [(row.layer, row.name, row.kind) for row in report.rows] == [
        (1, "conv", "Nested"),
        (2, "conv", "Nested"),
        (3, "conv", "Nested"),
        (4, "both", "DirGNNConv"),
    ]
    assert data.x is not None
    named = collapse(build(Shared), data, layers=["conv.inner", "both"])
    assert [row.name for row in named.rows] == ["conv.inner"] * 3 + ["both"]


class Own(MRSGCNConv):
    pass


class Split(torch.nn.Module):
    """Layers of graphprism, one built on top of another, one that returns edge states too."""

    def __init__(self):
        super().__init__()
        self.first, self.second = MRSGCNConv(4, 4, num_relations=2), Own(4, 4, num_relations=2)
        self.third = MRSGatedGCNConv(4, 3, num_relations=2)

    def forward(self, x, edge_index, edge_type):
        h = self.second(self.first(x, edge_index, edge_type).relu_(), edge_index, edge_type)
        out = self.third(h, edge_index, edge_type)
        return out[0] if isinstance(out, tuple) else out


def test_layers_of_graphprism():
    data = ring(y=classes())
    data.edge_type = (data.edge_index[0] < data.edge_index[1]).long()
    report = collapse(build(Split), data)
    assert [row.kind for row in report.rows] == ["MRSGCNConv", "Own", "MRSGatedGCNConv"]
    assert all(row.output_gradient > 0 and row.parameter_gradient > 0 for row in report.rows)


class Attention(torch.nn.Module):
    """Convolutions that return a tuple, and three dimensions."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Linear(4, 6)

    def forward(self, x):
        return self.conv(x).view(10, 2, 3), None


def test_tuples_and_heads():
    wrapper = torch.nn.Sequential(build(Attention))
    report = collapse(
        wrapper, ring(), forward=lambda m, d: m(d.x)[0].sum((1, 2)), loss=lambda o, _: o.sum(), layers=["0"]
    )
    assert report.rows[0].shape == (10, 6)
    assert report.rows[0].output_gradient == pytest.approx(math.sqrt(60))


def test_states_of_a_static_graph_are_ordered_by_node():
    model = build(GCNConv, 4, 5)
    data = ring()
    report = collapse(model, data, forward=lambda m, d: m(torch.stack((d.x, 2 * d.x, d.x)), d.edge_index))
    h = model(data.x, data.edge_index) - model.bias
    both = torch.cat((h, 2 * h, h), dim=1)
    assert report.rows[0].shape == (10, 15)
    assert report.rows[0].rank_one_distance == pytest.approx(rank_one_distance(both).item(), abs=1e-6)


def test_parts_of_a_heterogeneous_layer_are_listed():
    conv = HeteroConv({("a", "to", "a"): SAGEConv(4, 4), ("a", "of", "a"): SAGEConv(4, 4)})
    data = ring()
    edges = {("a", "to", "a"): data.edge_index, ("a", "of", "a"): data.edge_index}
    report = collapse(build(lambda: conv), data, forward=lambda m, d: m({"a": d.x}, edges))
    assert [row.kind for row in report.rows] == ["SAGEConv", "SAGEConv"]


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(4, 4)

    def forward(self, x, edge_index, edge_weight=None, edge_type=None, size=None, *, num_nodes):
        assert size is None
        assert num_nodes == 10
        return self.conv(x, edge_index, edge_weight) + edge_type.float().mean()


def test_arguments_are_found_by_name():
    data = ring()
    data.edge_type = torch.ones(data.num_edges, dtype=torch.long)
    data.edge_weight = torch.zeros(data.num_edges)
    (weighted,) = collapse(build(Named), data).rows
    data.edge_weight = None
    (plain,) = collapse(build(Named), data).rows
    assert weighted.frobenius_norm != plain.frobenius_norm


def test_any_object_with_attributes_is_data():
    data = ring()
    plain = SimpleNamespace(x=data.x, edge_index=data.edge_index)
    model = build(GCN, 4, 8, num_layers=2)
    assert collapse(model, plain) == collapse(model, data)


def test_a_whole_batch_under_the_name_batch():
    class Takes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(4, 4)

        def forward(self, batch):
            return self.conv(batch.x, batch.edge_index)

    assert len(collapse(build(Takes), Batch.from_data_list([ring()])).rows) == 1


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (classes(), "cross entropy"),
        (classes()[:, None], "cross entropy"),
        (torch.zeros(10, 3), "mean squared error"),
        (torch.zeros(10, 1, 3), "mean squared error"),
        (classes() + 1, "do not fit"),
        (classes() - 1, "do not fit"),
        (torch.zeros(10), "do not fit"),
        (classes(9), "do not fit"),
    ],
)
def test_default_losses(labels, name):
    report = collapse(build(GCN, 4, 8, num_layers=2, out_channels=3), ring(), labels)
    assert name in report.loss_name
    assert (report.loss is None) == ("no loss" in report.loss_name) == (report.rows[0].output_gradient is None)


def test_own_loss_and_masks_of_several_splits():
    def absolute(output, labels):
        assert output.shape == (4, 3)
        return (output - labels[:, None]).abs().mean()

    data = ring(y=torch.zeros(10), train_mask=(torch.arange(10) < 4)[:, None].repeat(1, 5))
    report = collapse(build(GCN, 4, 8, num_layers=2, out_channels=3), data, loss=absolute)
    assert report.loss_name == "absolute over the training nodes"
    with pytest.raises(ValueError, match=r"`loss` must return a scalar tensor, got shape \[4, 3\]"):
        collapse(build(GCN, 4, 8, num_layers=2, out_channels=3), data, loss=lambda output, labels: output)
    detached = collapse(build(GCN, 4, 3, num_layers=1), data, loss=lambda output, labels: output.detach().sum())
    assert detached.loss_name == "no loss: it depends on no layer"


def test_a_compiled_model_is_looked_into():
    model = build(GCN, 4, 8, num_layers=2)
    assert collapse(torch.compile(model, backend="eager"), ring()) == collapse(model, ring())


def test_bad_input():
    with pytest.raises(ValueError, match="`model` must hold a convolution"):
        collapse(torch.nn.Linear(4, 4), ring())
    with pytest.raises(ValueError, match=r"`data` must have the arguments of Named\.forward, got no edge_index"):
        collapse(build(Named), Data(x=torch.ones(10, 4)))
    with pytest.raises(ValueError, match="`model` must be initialised"):
        collapse(GCN(-1, 8, num_layers=2), ring())
    with pytest.raises(ValueError, match="`layers` must name modules of the model, got 'nowhere'"):
        collapse(build(GCN, 4, 8, num_layers=2), ring(), layers=["convs.0", "nowhere"])
    with pytest.raises(ValueError, match="got no call of convs"):
        collapse(build(GCN, 4, 8, num_layers=2), ring(), forward=lambda model, data: data.x)


def test_collapse_gives_the_call_where_names_of_arguments_differ():
    class Renamed(Named):
        def forward(self, feats, edges, depth):
            return self.conv(feats, edges)

    line = r"forward=lambda model, data: model\(feats=data\.x, edges=data\.edge_index, depth=\.\.\.\)$"
    with pytest.raises(ValueError, match=line):
        collapse(build(Renamed), ring())


def test_collapse_of_a_converted_model_has_the_rows_of_the_plain_one():
    # GATv2Conv keeps PyG's code: its deviations are modules beside it, whose outputs are weights and no states
    plain = GAT(4, 8, num_layers=3, out_channels=3, v2=True).eval()
    report, expected = collapse(gp.to_mrs(plain, "degree"), ring(y=classes())), collapse(plain, ring(y=classes()))
    assert [row.kind for row in report.rows] == ["GATv2Conv"] * 3
    assert [row.shape for row in report.rows] == [row.shape for row in expected.rows]
    assert report.verdict == expected.verdict


def test_collapse_leaves_out_scores_of_a_learned_split():
    model = gp.nn.GNN("mrs-gcn", 8, 3, num_layers=2, in_channels=4, learned_split=True)
    report = collapse(model, gp.SplitEdges("degree")(ring(y=classes())))
    assert [row.kind for row in report.rows] == ["MRSGCNConv"] * 2
