"""What relations contribute, by hand, by law and with bad input."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GCNConv

import graphprism as gp
from graphprism.testing import random_graph

GRAPH = random_graph(14, 50, 0)


def graph(seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    return gp.SplitEdges("degree")(Data(torch.randn(14, 6, generator=generator).double(), GRAPH.edge_index))


def model(conv: str = "mrs-gcn", start: str = "independent") -> torch.nn.Module:
    torch.manual_seed(0)
    return gp.nn.GNN(conv, 8, 3, 2, in_channels=6, start=start).double()


def test_explain_by_hand():
    # one node hears 3 in relation 0, another 1 in relation 1
    data = Data(torch.ones(3, 1).double(), torch.tensor([[0, 0], [1, 2]]), edge_type=torch.tensor([0, 1]))
    conv = gp.nn.MRSGCNConv(1, 1, num_relations=2, normalize=False).double()
    conv.lin.set_(torch.tensor([[[3.0]], [[1.0]]]).double())
    found = gp.explain(conv, data)
    assert found.names == ("0", "1")
    assert found.num_edges == (1, 1)
    assert found.shares[0] == pytest.approx((0.75, 0.25))
    assert found.removed == pytest.approx((3 / 10**0.5, 1 / 10**0.5))
    assert found.merged == pytest.approx((1 / 10**0.5, 1 / 10**0.5))  # the mean is 2


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-sage", "mrs-gat", "mrs-gin", "mrs-gated-gcn", "mrs-dir-gcn"])
def test_explain_takes_every_layer(conv):
    found = gp.explain(model(conv), graph())
    assert found.names == ("up", "down", "tie", "self-loops")
    assert len(found.shares) == (4 if "dir" in conv else 2)
    for share in found.shares:
        assert sum(share) == pytest.approx(1)
    assert all(change > 0 for change in (*found.removed[:2], *found.merged[:2]))


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-sage", "mrs-gin"])
def test_explain_sees_that_a_shared_start_has_one_relation(conv):
    found = gp.explain(model(conv, "shared"), graph())
    assert found.merged == pytest.approx((0, 0, 0, 0), abs=1e-12)
    assert found.removed[0] > 0


def test_explain_leaves_model_and_data_as_they_were():
    network, data = model(), graph()
    network.train()
    before, keys = network(data.x, data.edge_index, data.edge_type), sorted(data.keys())
    gp.explain(network, data)
    assert network.training
    assert not any(conv.is_by_edge for conv in network.convs)
    assert sorted(data.keys()) == keys
    assert data.edge_type.dim() == 1
    torch.testing.assert_close(network(data.x, data.edge_index, data.edge_type), before)


class Cached(torch.nn.Module):
    """Two layers, with the graph of the first call for all calls or not."""

    def __init__(self, cached: bool) -> None:
        super().__init__()
        self.first, self.second = GCNConv(6, 5, cached=cached), GCNConv(5, 3, cached=cached)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("called", [False, True])
def test_explain_takes_edges_away_from_layers_that_keep_their_graph(called):
    found = []
    for cached in (False, True):
        torch.manual_seed(0)
        converted, data = gp.to_mrs(Cached(cached).double(), "degree", start="independent"), graph()
        if called:
            converted(data.x, data.edge_index)
        before = [vars(module).copy() for module in converted.modules() if hasattr(module, "cached")]
        found.append(gp.explain(converted, data))
        assert [vars(module) for module in converted.modules() if hasattr(module, "cached")] == before
    assert found[0] == found[1]
    assert min(found[1].removed[:2]) > 0.01


def test_explain_with_a_score_and_a_call():
    network, data = model(), Batch.from_data_list([graph(0), graph(1)])
    target = network(data.x, data.edge_index, data.edge_type).argmax(1)

    def forward(model, data):
        return model(data.x, gp.RelationalAdj.from_data(data))

    def accuracy(output):
        return (output.argmax(1) == target).double().mean()

    found = gp.explain(network, data, score=accuracy, forward=forward, names=["a", "b", "c"])
    assert found.is_score
    assert found.names == ("a", "b", "c", "self-loops")
    assert max(found.removed) > 0
    assert min(found.removed) >= 0  # nothing is better than what defines the target


def test_explanation_is_a_table():
    lines = str(gp.explain(model(), graph())).splitlines()
    assert lines[0].split() == ["relation", "edges", "convs.0", "convs.1", "removed", "merged"]
    assert [line.split()[0] for line in lines[1:4]] == ["up", "down", "tie"]
    assert len({len(line) for line in lines[:4]}) == 1


def test_explain_names_bad_input():
    with pytest.raises(TypeError, match=r"`data` must be one graph, or several as .*Batch.*, got a list"):
        gp.explain(model(), [graph()])
    with pytest.raises(ValueError, match=r"`model` must have a layer with several relations"):
        gp.explain(torch.nn.Linear(6, 3), graph())
    with pytest.raises(TypeError, match=r"`model` must be a torch.nn.Module"):
        gp.explain(None, graph())
    with pytest.raises(ValueError, match=r"`names` must have one entry for each of 3 relations"):
        gp.explain(model(), graph(), names=["a"])
    with pytest.raises(TypeError, match=r"`score` must be None or a function"):
        gp.explain(model(), graph(), score=3)
    broken = graph()
    broken.edge_type = torch.zeros_like(broken.edge_type)
    with pytest.raises(ValueError, match=r"edges were added or their types replaced"):
        gp.explain(model(), broken)
    soft = graph()
    soft.edge_type = torch.rand(soft.num_edges, 3)
    with pytest.raises(ValueError, match=r"`data.edge_type` must have shape \[E\]"):
        gp.explain(model(), soft)


def test_explain_names_layers_that_it_cannot_look_into():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(6, 8), GATv2Conv(8, 3)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    torch.manual_seed(0)
    found = gp.explain(gp.to_mrs(Net().double(), "degree", start="independent"), graph())
    assert found.layers == ("model.first.conv",)
    assert found.without_shares == ("model.second.conv",)
    assert "no column: model.second.conv" in str(found)


def test_explain_ablates_a_model_without_any_shares():
    torch.manual_seed(0)
    conv = gp.to_mrs(GATv2Conv(6, 3).double(), "degree", start="independent")
    found = gp.explain(conv, graph())
    assert found.layers == ()
    assert found.names[:3] == ("up", "down", "tie")
    assert min(found.removed[:2]) > 0.01
    assert min(found.merged[:2]) > 0.01


@pytest.mark.parametrize("make", [Cached, lambda cached: GATv2Conv(6, 3)])
def test_explain_splits_a_graph_as_the_converted_model_does(make):
    converted = gp.to_mrs(make(False).double(), "degree, ppr", start="independent")
    plain = Data(graph().x, GRAPH.edge_index)
    found = gp.explain(converted, plain)
    assert set(plain.keys()) == {"edge_index", "x"}
    assert found == gp.explain(converted, gp.SplitEdges("degree, ppr")(plain.clone()))
    batch = Batch.from_data_list([plain, Data(torch.randn(14, 6).double(), random_graph(14, 30, 1).edge_index)])
    assert gp.explain(converted, batch) == gp.explain(converted, gp.SplitEdges("degree, ppr")(batch.clone()))


def test_explain_refuses_a_call_that_lets_a_converted_model_split_what_is_left():
    converted = gp.to_mrs(GCNConv(6, 3).double(), "degree", start="independent")
    with pytest.raises(ValueError, match=r"must get `edge_type` to be explained.*edge_type=data\.edge_type"):
        gp.explain(converted, graph(), forward=lambda model, data: model(data.x, data.edge_index))
    assert converted(graph().x, GRAPH.edge_index).shape == (14, 3)  # other calls split as before
    found = gp.explain(
        converted, graph(), forward=lambda model, data: model(data.x, data.edge_index, edge_type=data.edge_type)
    )
    assert min(found.merged[:2]) > 0.01


def test_explain_warns_of_a_call_that_ignores_the_graph_it_gets():
    whole, network = graph(), model()
    with pytest.warns(UserWarning, match="the same without the edges of any relation.*second argument"):
        found = gp.explain(network, whole, forward=lambda model, _: model(whole.x, whole.edge_index, whole.edge_type))
    assert max(found.removed) < 1e-12


def test_explain_takes_edges_away_from_a_graph_with_labels_of_links():
    class OnData(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(3, 2)

        def forward(self, data):
            return self.conv(data.x, data.edge_index)

    data = gp.SplitEdges("degree")(Data(torch.eye(3), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])))
    data.edge_label_index = torch.tensor([[0], [2]])  # held out by hand, before the split
    assert gp.explain(gp.to_mrs(OnData(), "degree"), data).names == ("up", "down", "tie", "self-loops")


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-gat", "mrs-sage", "mrs-gated-gcn"])
def test_explain_of_a_learned_split_at_its_start_is_that_of_the_fixed_one(conv):
    torch.manual_seed(0)
    learned = gp.nn.GNN(conv, 8, 3, 2, in_channels=6, start="independent", learned_split=True).double()
    found = gp.explain(learned, graph())
    learned.learned_split = None
    fixed = gp.explain(learned, graph())
    assert (found.names, found.num_edges, found.layers) == (fixed.names, fixed.num_edges, fixed.layers)
    assert min(map(min, fixed.shares)) > 0
    assert min(fixed.merged) > 0
    for name in ("shares", "removed", "merged"):
        torch.testing.assert_close(torch.tensor(getattr(found, name)), torch.tensor(getattr(fixed, name)))


def test_explain_of_a_learned_split_merges_by_its_scores():
    torch.manual_seed(0)
    net = gp.nn.GNN("mrs-gcn", 8, 3, 2, in_channels=6, start="independent", num_relations=2, learned_split=True)
    data = graph()
    data = Data(data.x, data.edge_index, edge_type=data.edge_index[0] % 2)
    half = torch.atanh(torch.tensor(0.5))
    with torch.no_grad():  # moves every edge to half of each relation: there is nothing left to merge
        net.learned_split.by_type.copy_(half * torch.tensor([[-1.0, 1.0], [1.0, -1.0]]))
    found = gp.explain(net.double(), data)
    assert min(found.removed) > 0.01
    assert max(found.merged) < 1e-6
    assert net.learned_split._forward_hooks == {}


def test_explain_of_a_learned_split_needs_the_edges_of_the_graph():
    class Halved(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split, self.conv = gp.nn.LearnedSplit(6, 3), gp.nn.MRSGCNConv(6, 2, num_relations=3)

        def forward(self, x, edge_index, edge_type):
            edge_index, edge_type = edge_index[:, ::2], edge_type[::2]
            return self.conv(x, edge_index, self.split(x, edge_index, edge_type))

    with pytest.raises(
        ValueError, match=r"a learned split must get the edges of `data`, 48 between different nodes, got 23"
    ):
        gp.explain(Halved().double(), graph())
