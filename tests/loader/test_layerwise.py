import copy

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GAT, GCN, GIN, GCNConv, PNAConv, Sequential, TransformerConv
from torch_geometric.nn import GraphSAGE as SAGE

from graphprism import to_mrs
from graphprism.loader import in_parts, layerwise
from graphprism.nn import CONVOLUTIONS, GNN, MRSGatedGCNConv, MRSGCNConv
from graphprism.ops import RelationalAdj
from tests.loader.graphs import small_data
from tests.pairwise import in_turn


@pytest.mark.parametrize("name", sorted(set(CONVOLUTIONS) - {"mlp"}))
def test_layerwise_is_the_forward_of_every_convolution(name):
    conv = CONVOLUTIONS[name]
    data = small_data(norm=None)
    torch.manual_seed(0)
    more = {"num_edge_types": 4} if conv.takes_edge_attr else {"in_channels": 5}
    model = GNN(name, 8, 3, 2, jk="cat", norm="layer", start="independent", residual=True, **more)
    model = model.double().eval()
    data.edge_attr = torch.arange(data.num_edges) % 4 if conv.takes_edge_attr else None
    expected = model(data.x, data.edge_index, data.edge_type, edge_attr=data.edge_attr)
    found = layerwise(model, data, batch_size=7)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("normalize", [False, True])
def test_layerwise_of_a_prepared_graph_and_rows_of_length_one(normalize):
    data = small_data(norm=None)
    adj = RelationalAdj.from_data(data)
    for name in ("mrs-gcn", "mrs-dir-gcn", "mrs-dir-sage"):
        options = {"in_channels": 5, "encode": False, "jk": "max", "normalize": normalize, "start": "independent"}
        model = GNN(name, 8, 3, 4, **options).double()
        found = layerwise(model, data, batch_size=13, edge_index=adj, edge_type=None)
        torch.testing.assert_close(found, model.eval()(data.x, adj))


MODELS = {
    "GCN": lambda: GCN(5, 8, 3, 2),
    "GraphSAGE": lambda: SAGE(5, 8, 3, 2),
    "GAT": lambda: GAT(5, 8, 3, 2, norm="BatchNorm"),
    "GIN": lambda: GIN(5, 8, 3, 2, jk="cat"),
    "GATv2": lambda: GAT(5, 8, 3, 2, v2=True),
}


@in_turn(name=[*MODELS, "GCN"], converted=[False, True])
def test_layerwise_of_models_of_pyg(name, converted):
    data = small_data(norm=None)
    torch.manual_seed(0)
    model = MODELS[name]().double().eval()
    if converted:
        model = to_mrs(model, "degree")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    expected = model(data.x, data.edge_index)
    del data.edge_weight
    if converted:
        with torch.no_grad(), in_parts(model, 7):
            found = model(data.x, data.edge_index)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(layerwise(model, data, batch_size=7), expected)


def test_layerwise_of_a_layer_without_a_form_of_ours():
    data = small_data(norm=None)
    torch.manual_seed(0)
    conv = to_mrs(TransformerConv(5, 4), "degree").double().eval()
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    expected = conv(data.x, data.edge_index)
    with torch.no_grad(), in_parts(conv, 7):
        torch.testing.assert_close(conv(data.x, data.edge_index), expected)


@pytest.mark.parametrize("make", [lambda: GCN(5, 8, 3, 2, bias=False), lambda: GCNConv(5, 4), lambda: GAT(5, 8, 3, 2)])
def test_layerwise_of_features_that_are_zero_nearly_everywhere(make):
    for seed in range(3):  # which nodes a layer is tried on depends on the edges
        torch.manual_seed(seed)
        data = Data(torch.zeros(1000, 5), torch.randint(1000, (2, 4000)))
        data.x[:20] = torch.rand(20, 5)
        for converted in (False, True):
            model = make()
            model = to_mrs(model, "degree") if converted else model
            expected = model.eval()(data.x, data.edge_index)
            torch.testing.assert_close(layerwise(model, data, batch_size=100), expected, rtol=1e-4, atol=1e-5)


def test_layerwise_of_weights_that_are_zero_nearly_everywhere():
    torch.manual_seed(0)
    data = Data(torch.randn(1000, 5), torch.randint(1000, (2, 4000)), edge_weight=torch.zeros(4000))
    data.edge_weight[::100] = torch.rand(40)
    conv = GCNConv(5, 4, add_self_loops=False)
    expected = conv(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(layerwise(conv, data, batch_size=100), expected, rtol=1e-4, atol=1e-5)


def test_layerwise_of_a_norm_that_a_layer_computes_itself():
    data = small_data(norm=None)
    conv = MRSGCNConv(5, 4, add_self_loops=True, num_relations=3, start="independent").double()
    expected = conv(data.x, data.edge_index, data.edge_type)
    torch.testing.assert_close(layerwise(conv, data, batch_size=7), expected)


def test_layerwise_takes_half_precision_rows():
    data = small_data(norm=None, dtype=torch.float32)
    data.x = data.x.half()
    model = GNN("mrs-sage", 8, 3, 2, in_channels=5, encode=False)
    expected = model(data.x.float(), data.edge_index, data.edge_type)
    torch.testing.assert_close(layerwise(model, data, batch_size=7), expected)


def test_layerwise_leaves_the_model_as_it_was():
    data = small_data(norm=None)
    model = GNN("mrs-gcn", 8, 3, 2, in_channels=5, dropout=0.5).double().train()
    state = copy.deepcopy(model.state_dict())
    out = layerwise(model, data, batch_size=7)
    assert model.training
    assert not out.requires_grad
    assert all("forward" not in vars(conv) and not conv._forward_hooks for conv in model.convs)
    torch.testing.assert_close(model.state_dict(), state)
    assert torch.equal(layerwise(model, data, batch_size=7), out)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("converted", [False, True])
def test_layerwise_of_layers_that_keep_their_graph(converted, called):
    data = small_data(norm=None)
    torch.manual_seed(0)
    plain = GCN(5, 4, num_layers=2, out_channels=3, cached=True).double().eval()
    model = to_mrs(plain, "degree", start="independent").eval() if converted else plain
    expected = copy.deepcopy(model)(data.x, data.edge_index)
    if called:
        model(data.x, data.edge_index)
    for batch_size in (7, 1000):
        torch.testing.assert_close(layerwise(model, data, batch_size=batch_size), expected)
    torch.testing.assert_close(model(data.x, data.edge_index), expected)
    assert all(conv.cached for conv in model.modules() if hasattr(conv, "cached"))


def test_states_of_edges_are_put_together():
    data = small_data(norm=None)
    conv = MRSGatedGCNConv(5, 5, num_relations=3, edge_dim=5, start="independent").double().eval()
    edges = torch.randn(data.num_edges, 5, dtype=torch.float64)
    arguments = (data.x, data.edge_index, data.edge_type)
    expected = conv(*arguments, edge_attr=edges, return_edge_attr=True)
    with torch.no_grad(), in_parts(conv, 7):
        found = conv(*arguments, edge_attr=edges, return_edge_attr=True)
    torch.testing.assert_close(found, expected)


def test_what_cannot_run_in_parts_is_said():
    data = small_data(norm=None)
    with pytest.raises(ValueError, match="must read at most two hops around a node, got APPNP"):
        layerwise(APPNP(3, 0.1), data, batch_size=7)
    unnamed = Sequential("x, edge_index", [(GCN(5, 8, 2), "x, edge_index -> x")])
    with pytest.raises(ValueError, match="`model` must name its arguments, got Sequential: call it inside `in_parts`"):
        layerwise(unnamed, data, batch_size=7)
    with pytest.raises(ValueError, match="`model` must have a convolution to run in parts, got Linear without"):
        layerwise(torch.nn.Linear(5, 5), data)
    with pytest.raises(ValueError, match="`batch_size` must be"):
        layerwise(GCN(5, 8, 2), data, batch_size=0)
    conv = PNAConv(5, 4, ["mean"], ["identity"], torch.ones(3)).double()
    with pytest.raises(TypeError, match="must be called with tensors `x` and `edge_index`"), in_parts(conv, 7):
        conv((data.x, data.x), data.edge_index)


@pytest.mark.parametrize(
    ("make", "reach"),
    [
        (lambda: GNN("mrs-sage", 8, 3, 2, in_channels=5), ("in", 1)),
        (lambda: GNN("mrs-gcn", 8, 3, 2, in_channels=5), ("in", 1)),
        (lambda: GNN("mrs-dir-gcn", 8, 3, 2, in_channels=5), ("both", 1)),
        (lambda: GCN(5, 8, 2, 3), ("in", 2)),
    ],
)
def test_layers_are_given_as_much_as_they_read(make, reach):
    data = small_data(200, 300, norm=None)
    model = make().double().eval()
    arguments = (data.x, data.edge_index, *((data.edge_type,) if isinstance(model, GNN) else ()))
    kept = {}
    for _ in range(2):
        with torch.no_grad(), in_parts(model, 50, kept=kept):
            found = model(*arguments)
        torch.testing.assert_close(found, model(*arguments))
        assert [kept[number] for number in range(2)] == [reach, reach]


def test_layerwise_on_a_device_of_its_own():
    data = small_data(norm=None)
    model = GNN("mrs-gcn", 8, 3, 2, in_channels=5).double().eval()
    found = layerwise(model, data, batch_size=7, device="cpu")
    torch.testing.assert_close(found, model(data.x, data.edge_index, data.edge_type))


class Adjacent(torch.nn.Module):
    """A model that calls its edges by another name."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(5, 4)

    def forward(self, x, adj):
        return self.conv(x, adj)


def test_an_argument_that_data_lacks_is_named():
    data = Data(small_data(norm=None).x, small_data(norm=None).edge_index)
    for model in (Adjacent().double(), to_mrs(Adjacent().double(), "degree")):
        with pytest.raises(ValueError, match=r"the argument `adj` of .*, got none: pass it, such as layerwise"):
            layerwise(model, data, batch_size=7)
        found = layerwise(model, data, batch_size=7, adj=data.edge_index)
        torch.testing.assert_close(found, model(data.x, data.edge_index))
