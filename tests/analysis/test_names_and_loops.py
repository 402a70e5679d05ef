"""Relations have the names of their split; self-loops are told apart from ties; hints in errors."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import graphprism as gp
from graphprism.nn import MRSConv, MRSGATConv, MRSGCNConv, MRSSAGEConv
from graphprism.splitting import by_attribute, by_direction, by_order

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
PATH = Data(x=torch.eye(4), edge_index=EDGES[:, :6], num_nodes=4, bond=torch.tensor([0, 0, 1, 1, 0, 0]))


def test_certificate_names_relations_of_the_split_that_data_carries():
    found = gp.certify(gp.SplitEdges("degree")(PATH))
    assert [relation.name for relation in found.relations] == ["up", "down", "tie"]
    assert "up " in str(found)
    product = gp.certify(gp.SplitEdges(by_order("degree") * by_attribute("bond", 2))(PATH))
    assert [relation.name for relation in product.relations][2:4] == ["tie,0", "up,1"]
    turned = gp.certify(gp.SplitEdges(by_direction())(PATH))
    assert [relation.name for relation in turned.relations] == ["one-way", "mutual"]
    numbered = gp.certify(Data(edge_index=PATH.edge_index, edge_type=torch.zeros(6).long(), num_nodes=4))
    assert [relation.name for relation in numbered.relations] == ["0"]


def test_explain_counts_self_loops_apart_from_ties():
    data = gp.SplitEdges("degree")(T.AddSelfLoops()(PATH))
    conv = MRSGCNConv(4, 4, bias=False)
    found = gp.explain(conv, data)
    assert found.names == ("up", "down", "tie", "self-loops")
    assert found.num_edges == (2, 2, 2, 4)
    assert sum(found.shares[0]) == pytest.approx(1)
    ties = data.edge_type == 2
    loops = data.edge_index[0] == data.edge_index[1]
    weight = gp.ops.edge_norm(data.edge_index, (4, 4), "sym")
    length = [
        torch.zeros(4, 4).index_add(
            0, data.edge_index[1][here], (weight[:, None] * conv.lin()[0][data.edge_index[0]])[here]
        )
        for here in (data.edge_type == 0, data.edge_type == 1, ties & ~loops, loops)
    ]
    expected = torch.stack([each.norm() for each in length])
    torch.testing.assert_close(torch.tensor(found.shares[0]), expected / expected.sum())
    assert "self-loops" in str(found)


def test_explain_shows_loops_that_a_layer_adds():
    found = gp.explain(MRSGCNConv(4, 4, add_self_loops=True), gp.SplitEdges("degree")(PATH))
    assert found.names[-1] == "self-loops"
    assert found.num_edges[-1] == 0
    assert found.shares[0][-1] > 0.1
    assert gp.explain(MRSGCNConv(4, 4), gp.SplitEdges("degree")(PATH)).names == ("up", "down", "tie")


def test_explain_changes_nothing_where_there_are_no_edges():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # no ties; loops are those of the layer
    data = gp.SplitEdges("degree")(Data(torch.randn(3, 4), edges))
    calls = []
    conv = MRSGCNConv(4, 4, add_self_loops=True, start="independent")

    def forward(model, data):
        calls.append(data.num_edges)
        # rounding that differs from call to call, as that of kernels does
        return model(data.x, data.edge_index, data.edge_type) + 1e-7 * len(calls)

    found = gp.explain(conv, data, forward=forward)
    assert found.num_edges == (2, 2, 0, 0)
    assert found.removed[2:] == found.merged[2:] == (0, 0)
    assert len(calls) == 5
    rows = {line.split()[0]: line for line in str(found).splitlines()[1:5]}
    assert rows["tie"].split()[-2:] == ["0", "0"]
    assert rows["self-loops"].rstrip().endswith("%")  # nothing to remove: no cells
    scored = gp.explain(conv, data, score=lambda out: float(out.sum()), forward=forward)
    assert scored.removed[2:] == scored.merged[2:] == (0, 0)


@pytest.mark.parametrize("conv", [MRSGCNConv, MRSGATConv, MRSSAGEConv])
def test_weights_in_the_place_of_types_are_named(conv):
    with pytest.raises(TypeError, match=r"must hold integers, got torch.float32; pass edge weights as `edge_weight=`"):
        conv(4, 4)(PATH.x, PATH.edge_index, torch.rand(6))


@pytest.mark.parametrize("make", [lambda: MRSGCNConv(8, 4, 3), lambda: MRSSAGEConv(8, 4, 3), lambda: MRSConv(dict, 3)])
def test_number_of_relations_has_a_name(make):
    with pytest.raises(TypeError, match="got 3; pass the number of relations as `num_relations=3`"):
        make()


@pytest.mark.parametrize("types", [torch.zeros(5).long(), torch.full((6,), 4)])
def test_errors_about_stale_types_name_the_check(types):
    with pytest.raises(ValueError, match=r"`gp.check_split\(data\)` says why"):
        MRSGCNConv(4, 4)(PATH.x, PATH.edge_index, types)
    model = gp.to_mrs(GCNConv(4, 4))
    with pytest.raises(ValueError, match=r"`gp.check_split\(data\)` says why"):
        model(PATH.x, PATH.edge_index, edge_type=types)
