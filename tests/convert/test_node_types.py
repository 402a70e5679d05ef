"""Graphs of several node types: a converted model splits them as `SplitEdges` does."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.data import HeteroData

import graphprism as gp
from graphprism.splitting import by_attribute, by_order, by_soft_order, only

KINDS = [("user", "buys", "item"), ("item", "sells", "user"), ("user", "knows", "user"), ("user", "likes", "user")]
SPLITS = {
    "degree": "degree",
    "degree, ppr": "degree, ppr",
    "features": "features",
    "attribute": by_order("degree") * by_attribute("kind", num_relations=2),
    "attribute first": by_attribute("kind", num_relations=2) * by_order("degree"),
    "direction": "degree * direction",
    "soft": by_soft_order("degree"),
    "only": only(by_order("degree") * by_attribute("kind", num_relations=3), range(6)),
}


def graph() -> HeteroData:
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(12, 4, generator=generator), torch.randn(9, 4, generator=generator)
    for kind in KINDS:
        ends = [torch.randint(data[end].num_nodes, (40,), generator=generator) for end in (kind[0], kind[2])]
        data[kind].edge_index = torch.stack(ends)
        data[kind].kind = torch.randint(2, (40,), generator=generator)
    return data


class OnDictionaries(torch.nn.Module):
    """A convolution for each kind of edges; ``kind_dict`` is for the split alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.HeteroConv({kind: pyg.SAGEConv((4, 4), 3) for kind in KINDS})

    def forward(self, x_dict, edge_index_dict, kind_dict=None):
        return self.conv(x_dict, edge_index_dict)


class OnData(OnDictionaries):
    def forward(self, data):
        return self.conv(data.x_dict, data.edge_index_dict)


def moved(model: torch.nn.Module) -> torch.nn.Module:
    """The model with relations that differ."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(10 * torch.randn(parameter.shape, generator=generator))
    return model


def test_relations_of_other_edges_are_refused():
    data, model = gp.SplitEdges("degree")(graph()), gp.to_mrs(OnData())
    model(data)
    kind = ("user", "knows", "user")
    data[kind].edge_index = data[kind].edge_index.flip(0)
    with pytest.raises(ValueError, match=r"'knows', 'user'\].edge_type` must hold the relations that `SplitEdges`"):
        model(data)


@pytest.mark.parametrize("name", SPLITS)
def test_split_in_the_call_is_that_of_split_edges(name):
    data, split = graph(), SPLITS[name]
    types = gp.SplitEdges(split)(data.clone()).edge_type_dict
    model = moved(gp.to_mrs(OnDictionaries(), split))
    arguments = (data.x_dict, data.edge_index_dict, data.kind_dict)
    expected = model(*arguments, edge_type=types)
    on_data = gp.to_mrs(OnData(), split)
    on_data.load_state_dict(model.state_dict())
    for _ in range(2):  # the second call takes prepared edges
        for found in (model(*arguments), on_data(data)):
            for node_type, rows in expected.items():
                torch.testing.assert_close(found[node_type], rows)
    other = model(*arguments, edge_type={kind: each.roll(1, -1) for kind, each in types.items()})
    assert any(not torch.allclose(other[node_type], rows) for node_type, rows in expected.items())


def test_split_in_the_call_follows_the_edges_of_other_kinds():
    data = graph()
    model = moved(gp.to_mrs(OnDictionaries(), "degree"))
    edges = data.edge_index_dict
    model(data.x_dict, edges)
    knows = KINDS[2], KINDS[3]
    edges[knows[1]] = data[knows[1]].edge_index[:, :5].clone()  # degrees of users change for all kinds
    data[knows[1]].edge_index, data[knows[1]].kind = edges[knows[1]], data[knows[1]].kind[:5]
    expected = model(data.x_dict, edges, edge_type=gp.SplitEdges("degree")(data.clone()).edge_type_dict)
    torch.testing.assert_close(model(data.x_dict, edges)["user"], expected["user"])


def test_pair_of_node_features_is_two_types_and_one_tensor_twice_is_one():
    data = graph()
    edges = data["user", "buys", "item"].edge_index
    model = moved(gp.to_mrs(pyg.SAGEConv((4, 4), 3), "degree"))
    pair = data["user"].x, data["item"].x
    ties = torch.full((40,), 2)
    torch.testing.assert_close(model(pair, edges), model(pair, edges, edge_type=ties))
    edges, twice = data["user", "knows", "user"].edge_index, (data["user"].x, data["user"].x)
    types = by_order("degree")(gp.splitting.Graph(edges, 12))
    assert types.unique().numel() == 3
    torch.testing.assert_close(model(twice, edges), model(twice, edges, edge_type=types))


def test_pair_of_node_features_is_split_by_an_attribute():
    data = graph()
    store = data["user", "buys", "item"]
    pair, kind = (data["user"].x, data["item"].x), store.kind.float()
    split = by_order("degree") * by_attribute("edge_weight", num_relations=2)
    model = moved(gp.to_mrs(pyg.GraphConv((4, 4), 3), split))
    found = model(pair, store.edge_index, edge_weight=kind)
    given = model(pair, store.edge_index, edge_weight=kind, edge_type=2 + 3 * store.kind)
    torch.testing.assert_close(found, given)
