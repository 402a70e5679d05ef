import pytest
import torch
from torch_geometric.nn import GATv2Conv, GCNConv, RGCNConv, SAGEConv

from graphprism.nn import CONVOLUTIONS, GNN, Convolution, DirConv, MRSGATConv, MRSGCNConv
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, make_example

EXACT = tolerance(torch.double)
EXAMPLE = make_example(GRAPHS["random"])
X, EDGES, TYPES = EXAMPLE.x, EXAMPLE.edge_index, EXAMPLE.edge_type


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_properties_are_those_of_the_layer(name):
    conv = CONVOLUTIONS[name]
    layer = conv.make(IN, 4, edge_dim=5)
    own = [each for each in layer.modules() if hasattr(each, "edge_norm")]
    assert conv.name == name
    assert (conv.relations(3), conv.relations(1)) == ((3, 1) if conv.relational else (1, 1))
    assert getattr(layer, "num_relations", 1) == conv.relations(3)
    assert isinstance(layer, DirConv) == conv.directed
    assert (getattr(layer, "edge_dim", None) == 5) == conv.takes_edge_attr
    assert any(isinstance(each, torch.nn.BatchNorm1d) for each in layer.modules()) == conv.has_batch_norm
    assert bool(own) == (conv.takes_graph and conv.edge_norm is not None)
    if own and not conv.directed:
        assert own[0].edge_norm == conv.edge_norm


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_prepared_coefficients_change_nothing(name):
    conv = CONVOLUTIONS[name]
    if not conv.takes_graph or conv.edge_norm in (None, "none"):
        assert conv.edge_norm in (None, "none")
        return
    layer, types = conv.make(IN, 4).double(), TYPES if conv.relational else None
    adj = RelationalAdj(EDGES, types, num_relations=conv.relations(3), num_nodes=X.size(0))
    torch.testing.assert_close(layer(X, adj.normalized(conv.edge_norm, X.dtype)), layer(X, adj), **EXACT)


def test_partners_are_a_plain_and_a_relational_form():
    for conv in CONVOLUTIONS.values():
        if conv.partner is not None:
            other = CONVOLUTIONS[conv.partner]
            assert (other.relational, other.directed) == (not conv.relational, conv.directed)
            assert other.partner == conv.name or conv.name == "mrs-gated-gcn-9"
    assert {name for name, conv in CONVOLUTIONS.items() if conv.partner is None} == {
        "gat-degree",
        "lmgc",
        "mlp",
        "pyg-gcn",
        "pyg-rgcn",
    }


@pytest.mark.parametrize("name", ["gat", "mrs-gat", "dir-gat", "mrs-dir-gat"])
def test_attention_has_two_averaged_heads(name):
    layers = [each for each in CONVOLUTIONS[name].make(IN, 4).modules() if isinstance(each, MRSGATConv)]
    assert {(layer.heads, layer.concat) for layer in layers} == {(2, False)}


@pytest.mark.parametrize("name", ["mrs-gin", "mrs-gated-gcn", "mrs-gat"])
def test_relations_start_alike_in_every_relational_layer(name):
    layer = CONVOLUTIONS[name].make(4, 4)
    deviations = [value for key, value in layer.named_parameters() if "deviation" in key]
    assert deviations
    assert not any(deviation.any() for deviation in deviations)


def fit(model, *graph):
    """Losses of a few steps towards fixed targets."""
    target = torch.randn(X.size(0), 2, generator=torch.Generator().manual_seed(1)).double()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.05), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (model(X, *graph) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize("name", [name for name, conv in CONVOLUTIONS.items() if conv.edge_norm is None])
def test_layer_of_pyg_trains_in_a_network(name, encode):
    torch.manual_seed(0)
    model = GNN(name, 8, 2, 2, in_channels=IN, encode=encode, residual=True).double()
    assert {type(layer) for layer in model.convs} == {{"pyg-gcn": GCNConv, "pyg-rgcn": RGCNConv}[name]}
    losses = fit(model, EDGES, TYPES)
    assert losses[-1] < 0.7 * losses[0]
    adj = RelationalAdj(EDGES.int(), TYPES.int(), num_relations=3, num_nodes=X.size(0))
    outs = [model(X, EDGES, TYPES), model(X, adj), model(X, EDGES.int(), TYPES.int())]
    grads = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in outs]
    for number in (1, 2):
        torch.testing.assert_close(outs[number], outs[0], **EXACT)
        torch.testing.assert_close(grads[number], grads[0], **EXACT)


def test_network_of_a_pyg_layer_is_its_stack():
    torch.manual_seed(0)
    for name, more in (("pyg-gcn", ()), ("pyg-rgcn", (TYPES,))):
        model = GNN(name, 8, 2, 2, in_channels=IN, encode=False).double()
        first, last = model.convs
        expected = last(first(X, EDGES, *more).relu(), EDGES, *more)
        torch.testing.assert_close(model(X, EDGES, TYPES), expected, **EXACT)


def test_relational_layer_of_pyg_with_one_relation():
    model = GNN("pyg-rgcn", 8, 2, 1, num_relations=1, in_channels=IN, encode=False).double()
    types = torch.zeros_like(TYPES)
    torch.testing.assert_close(model(X, EDGES, types), model.convs[0](X, EDGES, types), **EXACT)


def test_convolution_outside_the_table_with_edge_features():
    conv = Convolution(
        "gatv2", lambda i, o, k: GATv2Conv(i, o, edge_dim=k.edge_dim), edge_norm=None, takes_edge_attr=True
    )
    kinds = torch.arange(EDGES.size(1)) % 4
    model = GNN(conv, 8, 2, 2, num_edge_types=4).double()
    out = model(X, EDGES, edge_attr=kinds)
    assert out.shape == (X.size(0), 2)
    assert not torch.allclose(out, model(X, EDGES, edge_attr=3 - kinds))


def test_function_of_the_width_without_encoder():
    for make in (
        lambda o: SAGEConv(-1, o),
        lambda o: MRSGCNConv(-1, o, num_relations=3),
        lambda o: DirConv(lambda: MRSGCNConv(-1, o)),
    ):
        assert GNN(make, 8, 2, 3, encode=False).double()(X, EDGES, TYPES).shape == (X.size(0), 2)


def test_layer_of_pyg_rejects_what_it_does_not_take():
    adj = RelationalAdj(EDGES, TYPES, torch.ones(EDGES.size(1)), num_relations=3, num_nodes=X.size(0))
    model = GNN("pyg-rgcn", 8, 2, 1).double()
    for graph in ((adj,), (EDGES, TYPES, torch.ones(EDGES.size(1)))):
        with pytest.raises(ValueError, match="`edge_weight` must be None with pyg-rgcn, which takes"):
            model(X, *graph)
    with pytest.raises(ValueError, match=r"`edge_weight` must have shape \[\d+\], got \[1\]"):
        GNN("pyg-gcn", 8, 2, 1).double()(X, EDGES, None, torch.ones(1))
    with pytest.raises(ValueError, match="`edge_type` must be given with pyg-rgcn, got None"):
        GNN("pyg-rgcn", 8, 2, 1).double()(X, EDGES)


def test_gcn_of_pyg_takes_weights():
    model, weight = GNN("pyg-gcn", 8, 2, 1, encode=False, in_channels=X.size(1)).double(), torch.rand(EDGES.size(1))
    out = model(X, EDGES, None, weight)
    torch.testing.assert_close(out, model.convs[0](X, EDGES, weight.double()))
    assert not torch.allclose(out, model(X, EDGES))
    torch.testing.assert_close(model(X, RelationalAdj(EDGES, None, weight, num_nodes=X.size(0))), out)
