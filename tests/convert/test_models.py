"""Converted models are the same function: outputs and gradients of the input."""

import pytest
import torch
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch_geometric import nn as pyg
from torch_geometric.nn import (
    GAE,
    GAT,
    GCN,
    GIN,
    PNA,
    DeepGCNLayer,
    EdgeCNN,
    GatedGraphConv,
    GPSConv,
    GraphSAGE,
    Sequential,
    TAGConv,
)

import graphprism as gp
from graphprism.convert.generic_layer import GenericLayer
from graphprism.convert.own_layers import OwnLayer
from graphprism.nn import MRSGCNConv
from graphprism.nn.conv.relational_conv import RelationalConv
from tests.convert.test_convolutions import inputs, out_and_gradients, relative_error
from tests.pairwise import all_pairs

N, F, OUT, D = 12, 6, 4, 3


def edges(kind: str) -> torch.Tensor:
    drawn = torch.randint(0, N - 1, (2, 30), generator=torch.Generator().manual_seed(1))
    return drawn if kind == "directed" else torch.cat([drawn, drawn.flip(0)], dim=1)


def features(kind: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    edge_index = edges(kind)
    x, attr = torch.randn(N, F, generator=generator), torch.randn(edge_index.size(1), D, generator=generator)
    return x, edge_index, torch.rand(edge_index.size(1), generator=generator), attr


class Counted:
    """A split that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, graph) -> torch.Tensor:
        self.calls += 1
        return gp.splitting.resolve_split("degree")(graph)


class Shared(torch.nn.Module):
    """A convolution used twice, another in a list, called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.first = pyg.GCNConv(F, F, improved=True)
        self.again = self.first
        self.others = torch.nn.ModuleList([pyg.GATv2Conv(F, OUT, heads=2, concat=False)])

    def forward(self, x, edge_index, weight=None):
        x = self.first(x, edge_index, weight).relu()
        x = self.again(x, edge_index=edge_index).relu()
        return self.others[0](x, edge_index)


DEGREES = torch.tensor([1, 3, 5, 2])
SCALED = {"aggregators": ["mean", "std"], "scalers": ["identity", "attenuation"], "deg": DEGREES}
MODELS = {
    "gcn": lambda: GCN(F, 8, 3, OUT, jk="cat"),
    "gcn, weights": (lambda: GCN(F, 8, 3, OUT, improved=True), "edge_weight"),
    "gcn, no loops": (lambda: GCN(F, 8, 3, OUT, add_self_loops=False, normalize=False), "edge_weight"),
    "gcn, lstm": lambda: GCN(F, 8, 3, OUT, jk="lstm"),
    "gcn, norm": lambda: GCN(F, 8, 2, OUT, norm="batch_norm", bias=False),
    "gcn, target to source": lambda: GCN(F, 8, 2, OUT, flow="target_to_source"),
    "gcn, max": lambda: GCN(F, 8, 2, OUT, aggr="max"),
    "gat": lambda: GAT(F, 8, 2, OUT, heads=2),
    "gat, features": (lambda: GAT(F, 8, 2, OUT, heads=2, edge_dim=D, residual=True), "edge_attr"),
    "gat, no loops": (lambda: GAT(F, 8, 2, OUT, edge_dim=D, add_self_loops=False), "edge_attr"),
    "gatv2": (lambda: GAT(F, 8, 2, OUT, heads=2, edge_dim=D, v2=True), "edge_attr"),
    "gin": lambda: GIN(F, 8, 2, OUT, train_eps=True),
    "sage": lambda: GraphSAGE(F, 8, 2, OUT, project=True, normalize=True),
    "sage, sum": lambda: GraphSAGE(F, 8, 2, OUT, aggr="sum", root_weight=False),
    "pna": (lambda: PNA(F, 8, 2, OUT, edge_dim=D, **SCALED), "edge_attr"),
    "edge cnn": lambda: EdgeCNN(F, 8, 2, OUT),
    "sequential": lambda: Sequential(
        "x, edge_index",
        [(pyg.GCNConv(F, 8), "x, edge_index -> x"), torch.nn.ReLU(), (pyg.GraphConv(8, OUT), "x, edge_index -> x")],
    ),
    "deep": lambda: DeepGCNLayer(
        pyg.GENConv(F, F, learn_t=True, edge_dim=D), torch.nn.LayerNorm(F), torch.nn.ReLU(), "res+"
    ),
    "gps": lambda: GPSConv(F, pyg.GINConv(torch.nn.Sequential(torch.nn.Linear(F, F), torch.nn.ReLU())), heads=2),
    "graph conv, mean": (
        lambda: Sequential("x, edge_index, weight", [(pyg.GraphConv(F, OUT, "mean"), "x, edge_index, weight -> x")]),
        "positional weight",
    ),
    "shared": Shared,
    "dir": lambda: pyg.DirGNNConv(pyg.SAGEConv(F, OUT)),
    "one convolution": lambda: pyg.GCNConv(F, OUT),
}


@all_pairs(name=[*MODELS], kind=["directed", "undirected"], dtype=[torch.float64, torch.float32])
def test_converted_model_is_the_same_function(name, kind, dtype):
    make, extra = MODELS[name] if isinstance(MODELS[name], tuple) else (MODELS[name], None)
    x, edge_index, weight, attr = features(kind)
    torch.manual_seed(0)
    plain = make().to(dtype).eval()
    args = {"edge_weight": weight, "positional weight": weight, "edge_attr": attr}.get(extra)
    given = (x, edge_index) if args is None else (x, edge_index, args)
    if name == "deep":
        given = (x, edge_index, attr)
    given, leaves = inputs(given, dtype)
    call = (lambda model: lambda *a: model(*a[:2], **{extra: a[2]})) if extra in ("edge_weight", "edge_attr") else None
    example = {"x": given[0], "edge_index": given[1], extra: given[2]} if call else given
    converted = gp.to_mrs(plain, example=example)
    modules = [each for each in own_modules(converted) if not isinstance(each, RelationalConv)]
    assert not any(isinstance(module, pyg.MessagePassing) for module in modules)
    found, expected = (out_and_gradients(call(model) if call else model, given, leaves) for model in (converted, plain))
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    assert max(map(relative_error, found, expected)) < limit


def own_modules(model: torch.nn.Module):
    """Modules outside of generic layers, which hold the layer that they convert."""
    if isinstance(model, GenericLayer):
        return
    yield model
    for child in model.children():
        yield from own_modules(child)


def test_converted_model_leaves_the_original_alone():
    plain = GCN(F, 8, 2, OUT)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    converted = gp.to_mrs(plain)
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.add_(1)
    assert isinstance(plain.convs[0], pyg.GCNConv)
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())


def test_shared_convolution_stays_shared():
    converted = gp.to_mrs(Shared())
    assert converted.model.first is converted.model.again
    assert isinstance(converted.model.first.conv, MRSGCNConv)


@pytest.mark.parametrize("make", [GCN, GAT, GIN, GraphSAGE, PNA])
@pytest.mark.parametrize("start", ["shared", "independent"])
def test_frozen_and_training_flags_are_kept(make, start):
    plain = make(F, 8, 2, OUT, **SCALED if make is PNA else {})
    plain.convs[0].requires_grad_(False)
    plain.eval()
    converted = gp.to_mrs(plain, start=start)
    assert not any(parameter.requires_grad for parameter in converted.model.convs[0].parameters())
    assert all(parameter.requires_grad for parameter in converted.model.convs[1].parameters())
    assert not any(module.training for module in converted.model.modules())


def test_frozen_epsilon_of_gin_stays_frozen():
    plain = pyg.GINConv(torch.nn.Linear(F, OUT), train_eps=True)
    plain.eps.requires_grad_(False)
    assert [name for name, parameter in gp.to_mrs(plain).named_parameters() if not parameter.requires_grad] == [
        "model.conv.eps"
    ]


def test_lazy_model_is_converted_with_an_example():
    x, edge_index, _, _ = features("undirected")
    plain = GAT(-1, 8, 2, OUT, v2=True)
    with pytest.raises(ValueError, match=r"`convs\.0` is a GATv2Conv: it has lazy parameters"):
        gp.to_mrs(plain)
    converted = gp.to_mrs(plain, example=(x, edge_index))
    assert converted(x, edge_index).shape == (N, OUT)


def test_convolutions_without_weights_are_refused_or_left():
    model = torch.nn.ModuleDict({"a": pyg.GCNConv(F, OUT), "b": pyg.APPNP(2, 0.1)})
    with pytest.raises(ValueError, match=r"`b` is a APPNP: .* it has none; `strict=False` leaves"):
        gp.to_mrs(model)
    left = gp.to_mrs(model, strict=False).model
    assert isinstance(left["a"], OwnLayer)
    assert isinstance(left["b"], pyg.APPNP)
    with pytest.raises(ValueError, match="its messages depend on no parameters, and are not added"):
        gp.to_mrs(pyg.SAGEConv(F, OUT, aggr="max"), strict=False)


def test_model_without_convolutions_is_refused():
    with pytest.raises(ValueError, match="`model` must have a convolution of PyG, got a Linear without"):
        gp.to_mrs(torch.nn.Linear(2, 2))


def test_converted_model_is_not_converted_again():
    converted = gp.to_mrs(pyg.GCNConv(2, 2))
    for model in (converted, torch.nn.Sequential(converted)):
        with pytest.raises(ValueError, match=r"`model` must not be converted yet, got .* of `to_mrs`"):
            gp.to_mrs(model)


def test_tied_parameters_are_refused():
    model = torch.nn.ModuleList([pyg.GCNConv(F, F), pyg.GCNConv(F, F)])
    model[1].lin.weight = model[0].lin.weight
    with pytest.raises(ValueError, match="it shares parameters with another module"):
        gp.to_mrs(model)


def test_hetero_conv_takes_dictionaries_and_data():
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(5, F), torch.randn(4, F)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2, 4], [0, 0, 1, 3]])
    data["b", "to", "a"].edge_index = data["a", "to", "b"].edge_index.flip(0)
    data["a", "to", "a"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    kinds = {
        ("a", "to", "b"): pyg.SAGEConv((F, F), OUT),
        ("b", "to", "a"): pyg.GATConv((F, F), OUT, add_self_loops=False),
        ("a", "to", "a"): pyg.GATv2Conv(F, OUT),
    }
    plain = pyg.HeteroConv(kinds).eval()
    converted = gp.to_mrs(plain)
    found, expected = (model(data.x_dict, data.edge_index_dict) for model in (converted, plain))
    for name, value in expected.items():
        assert relative_error(found[name], value) < 1e-5

    class TakesHeteroData(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = plain

        def forward(self, data):
            return self.conv(data.x_dict, data.edge_index_dict)

    split = Counted()
    converted = gp.to_mrs(TakesHeteroData(), split, num_relations=3)
    for _ in range(3):
        found = converted(data)
        assert all(relative_error(found[name], value) < 1e-5 for name, value in expected.items())
    assert split.calls == 3  # one for each type of edges


def test_methods_of_the_model_split_too():
    x, edge_index, _, _ = features("undirected")
    plain = GAE(GCN(F, 8, 2, OUT)).eval()
    converted = gp.to_mrs(plain)
    z = converted.encode(x, edge_index)
    assert relative_error(z, plain.encode(x, edge_index)) < 1e-5
    assert converted.decode(z, edge_index).shape == edge_index.shape[1:]


class Pools(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool, self.conv = pyg.TopKPooling(F), pyg.SAGEConv(F, OUT)

    def forward(self, x, edge_index):
        x, edge_index, *_ = self.pool(x, edge_index)
        return self.conv(x, edge_index)


def test_pooled_edges_are_refused():
    x, edge_index, _, _ = features("undirected")
    with pytest.raises(ValueError, match="must get the `edge_index` that the model was called with"):
        gp.to_mrs(Pools())(x, edge_index)


def test_independent_start_draws_every_relation():
    x, edge_index, _, _ = features("undirected")
    for plain in (GCN(F, 8, 2, OUT), GAT(F, 8, 2, OUT, v2=True), GIN(F, 8, 2, OUT)):
        converted = gp.to_mrs(plain.eval(), start="independent")
        assert relative_error(converted(x, edge_index), plain(x, edge_index)) > 1e-2


@pytest.mark.parametrize("budget", ["equal", 5000])
def test_budget_finds_the_largest_width(budget):
    def make(width: int) -> GCN:
        return GCN(F, width, 3, OUT)

    converted = gp.to_mrs(make, budget=budget, width=64 if budget == "equal" else None)
    limit = count(make(64)) if budget == "equal" else budget
    width = converted.model.hidden_channels
    assert count(converted) <= limit < count(gp.to_mrs(make(width + 1)))
    torch.manual_seed(3)
    same = gp.to_mrs(make, budget=budget, width=64 if budget == "equal" else None)
    torch.manual_seed(3)
    assert torch.equal(same.model.convs[0].conv.lin.common, gp.to_mrs(make(width)).model.convs[0].conv.lin.common)


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_budget_without_width_or_function_is_refused():
    with pytest.raises(ValueError, match="`width` must be given"):
        gp.to_mrs(lambda width: GCN(F, width, 2), budget="equal")
    with pytest.raises(TypeError, match="`model` must be a function of a width with `budget`, got a GCN"):
        gp.to_mrs(GCN(F, 8, 2), budget="equal", width=8)
    with pytest.raises(ValueError, match='`width` must be None unless budget="equal", as it is found, got 8'):
        gp.to_mrs(lambda width: GCN(F, width, 2), budget=5000, width=8)
    with pytest.raises(ValueError, match="`width` must be None without budget"):
        gp.to_mrs(GCN(F, 8, 2), width=8)
    with pytest.raises(TypeError, match=r"`model` must be a torch.nn.Module"):
        gp.to_mrs(lambda width: GCN(F, width, 2))


def test_infinite_decay_keeps_any_weights():
    # the mean of three equal numbers may be another one
    x, edge_index, _, _ = features("undirected")
    plain = GCN(F, 33, 3, OUT).eval()
    torch.testing.assert_close(gp.to_mrs(plain, decay=float("inf"))(x, edge_index), plain(x, edge_index))


@pytest.mark.parametrize("options", [{}, {"decay": float("inf")}, {"deviation": "diagonal"}])
@pytest.mark.parametrize(
    "make",
    [
        lambda: GCN(F, 8, 2, OUT),
        lambda: GIN(F, 8, 2, OUT),
        lambda: GAT(F, 8, 2, OUT, v2=True),
        lambda: TAGConv(F, OUT),
    ],
)
def test_model_without_values_gets_those_of_a_state(make, options):
    x, edge_index, _, _ = features("undirected")
    trained = gp.to_mrs(make(), **options).eval()
    for name, parameter in trained.named_parameters():
        if "deviation" in name and "decay" not in options:
            torch.nn.init.normal_(parameter)
    with torch.device("meta"):
        here, assigned = make(), gp.to_mrs(make(), **options).eval()
    assert all(parameter.is_meta for parameter in assigned.parameters())
    assigned.load_state_dict(trained.state_dict(), assign=True)
    filled = gp.to_mrs(here, **options).eval().to_empty(device="cpu")
    filled.load_state_dict(trained.state_dict())
    for model in (assigned, filled):
        torch.testing.assert_close(model(x, edge_index), trained(x, edge_index))


@pytest.mark.parametrize("make", [lambda: EdgeCNN(F, 8, 2, OUT), lambda: GatedGraphConv(F, 2)])
def test_sizes_of_a_convolution_are_those_of_its_parts(make):
    x, edge_index, _, _ = features("undirected")
    plain = make().eval()
    torch.testing.assert_close(gp.to_mrs(plain)(x, edge_index), plain(x, edge_index))


def test_layers_of_this_package_are_refused():
    with pytest.raises(ValueError, match="MRSGCNConv: it has a weight for each relation already"):
        gp.to_mrs(torch.nn.ModuleList([gp.nn.MRSGCNConv(4, 4)]))


@pytest.mark.parametrize("normed", [weight_norm, spectral_norm])
@pytest.mark.parametrize("conv", [pyg.GATv2Conv, pyg.GCNConv, pyg.GATConv])
def test_parametrised_convolution_keeps_its_parametrisation(conv, normed):
    x, edge_index, _, _ = features("undirected")
    plain = conv(F, OUT).eval()
    normed(plain.lin_l if hasattr(plain, "lin_l") else plain.lin)
    converted = gp.to_mrs(plain)
    assert any("parametrizations" in name for name in converted.model.names)
    assert relative_error(converted(x, edge_index), plain(x, edge_index)) < 1e-5
    converted(x, edge_index).sum().backward()
    assert all(parameter.grad is not None for parameter in converted.parameters())


@pytest.mark.parametrize(
    ("plain", "name"),
    [
        (lambda: pyg.SAGEConv(F, OUT), "lin_l"),
        (lambda: pyg.GraphConv(F, OUT), "lin_rel"),
        (lambda: pyg.GINConv(torch.nn.Sequential(torch.nn.Linear(F, OUT))), "nn.0"),
    ],
    ids=["sage", "graph", "gin"],
)
def test_parametrised_weights_that_act_on_sums_keep_their_parametrisation(plain, name):
    x, edge_index, _, _ = features("undirected")
    layer = plain().eval()
    weight_norm(layer.get_submodule(name))
    converted = gp.to_mrs(layer)
    assert [each.rpartition(".")[0] for each in converted.model.names] == [f"{name}.parametrizations.weight"] * 2
    assert relative_error(converted(x, edge_index), layer(x, edge_index)) < 1e-5
    converted(x, edge_index).sum().backward()
    assert all(parameter.grad is not None for parameter in converted.parameters())


def test_parametrisation_after_the_conversion_is_named():
    x, edge_index, _, _ = features("undirected")
    converted = gp.to_mrs(pyg.GATv2Conv(F, OUT))
    weight_norm(converted.model.conv.lin_l)
    words = r"a converted GATv2Conv must keep its parameters, got no `lin_l.weight`: parametrise \(.*\) before `to_mrs`"
    with pytest.raises(ValueError, match=words):
        converted(x, edge_index)


def test_a_reason_that_many_convolutions_share_is_said_once():
    class Own(pyg.MessagePassing):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)

        def forward(self, x, edge_index):
            return self.propagate(edge_index, x=x)

        def message(self, x_j):
            return self.lin(x_j)

    with pytest.raises(
        ValueError, match=r"`0` is a Own: its input cannot be guessed.* \(so for 31 more, to `31`\)$"
    ) as e:
        gp.to_mrs(torch.nn.Sequential(*(Own() for _ in range(32))), "degree")
    assert str(e.value).count("cannot be guessed") == 1


@pytest.mark.parametrize("kind", ["GCN", "GAT", "GIN", "GraphSAGE"])
def test_a_shared_start_leaves_the_random_state(kind):
    model = getattr(pyg, kind)(5, 8, 2)
    for start, same in (("shared", True), ("independent", False)):
        torch.manual_seed(0)
        gp.to_mrs(model, "degree", start=start)
        after = torch.rand(3)
        torch.manual_seed(0)
        assert torch.equal(after, torch.rand(3)) == same
