"""Options that layers share: sizes that wait for the input, two kinds of nodes, a common start."""

import copy

import pytest
import torch
from torch_geometric.nn import MLP

from graphprism.nn import MRSConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, OUT, Difference, make_example, mlp

EXAMPLE = make_example(GRAPHS["random"], dtype=torch.float32)
SIZED = {
    "gcn": lambda size, **options: MRSGCNConv(size, OUT, **options),
    "sage": lambda size, **options: MRSSAGEConv(size, OUT, **options),
    "sage-project": lambda size, **options: MRSSAGEConv(size, OUT, project=True, **options),
    "gat": lambda size, **options: MRSGATConv(size, OUT, **options),
    "gated-gcn": lambda size, **options: MRSGatedGCNConv(size, OUT, **options),
}
sized = pytest.mark.parametrize("name", SIZED)


@sized
def test_a_lazy_layer_takes_its_size_from_the_first_input(name):
    torch.manual_seed(0)
    lazy = SIZED[name](-1)
    out = EXAMPLE.run(lazy)
    assert out.shape == (12, OUT)
    assert sum(p.numel() for p in lazy.parameters()) == sum(p.numel() for p in SIZED[name](IN).parameters())
    assert torch.equal(EXAMPLE.run(lazy), out)


@sized
def test_a_lazy_layer_loads_the_weights_of_another(name):
    trained, lazy = SIZED[name](IN), SIZED[name](-1)
    trained.eval(), lazy.eval()
    lazy.load_state_dict(trained.state_dict())
    torch.testing.assert_close(EXAMPLE.run(lazy), EXAMPLE.run(trained))


@sized
def test_lazy_weights_are_drawn_like_others(name):
    torch.manual_seed(0)
    lazy = SIZED[name](-1)
    EXAMPLE.run(lazy)
    spread = {n: p.std() for n, p in SIZED[name](IN).named_parameters() if n.endswith("lin.weight")}
    for parameter, value in lazy.named_parameters():
        if parameter in spread:
            torch.testing.assert_close(value.std(), spread[parameter], rtol=0.5, atol=0.0)


@sized
def test_lazy_layer_saves_and_loads_before_the_first_input(name):
    lazy, other = SIZED[name](-1), SIZED[name](-1)
    other.load_state_dict(lazy.state_dict())
    assert EXAMPLE.run(other).shape == (12, OUT)
    assert EXAMPLE.run(copy.deepcopy(lazy)).shape == (12, OUT)


@pytest.mark.parametrize("name", ["sage", "sage-project", "gated-gcn"])
def test_lazy_biases_are_drawn_for_the_size_of_the_input(name):
    torch.manual_seed(0)
    lazy, width = SIZED[name](-1), 400
    lazy(torch.randn(12, width), EXAMPLE.edge_index, EXAMPLE.edge_type)
    biases = {n: p for n, p in lazy.named_parameters() if n.endswith("bias") and "norm" not in n}
    assert biases
    assert all(0 < p.abs().max() <= width**-0.5 for p in biases.values())


@pytest.mark.parametrize("name", ["sage", "gat", "gated-gcn"])
def test_two_kinds_of_nodes(name):
    torch.manual_seed(0)
    edges, types = torch.tensor([[0, 6, 6, 3], [1, 0, 1, 2]]), torch.tensor([0, 1, 2, 0])
    senders, receivers = torch.randn(7, 5), torch.randn(3, 2)
    layer = SIZED[name]((5, 2)).eval()
    out = layer((senders, receivers), edges, types)
    assert out.shape == (3, OUT)
    # the same graph in one set of ten nodes: senders 0-6, receivers 7-9, features side by side
    alone = layer((senders[[6]], receivers[[0]]), torch.tensor([[0], [0]]), torch.tensor([1]))
    torch.testing.assert_close(out[:1], alone, **tolerance(torch.float32))


def test_two_kinds_of_nodes_without_sizes_of_their_own():
    edges, types = torch.tensor([[0, 6, 6, 3], [1, 0, 1, 2]]), torch.tensor([0, 1, 2, 0])
    senders, receivers = torch.randn(7, IN), torch.randn(3, IN)
    assert MRSGINConv(mlp)((senders, receivers), edges, types).shape == (3, OUT)
    assert MRSConv(Difference)((senders, receivers), edges, types).shape == (3, OUT)
    weighted = MRSGCNConv(IN, OUT)((senders, receivers), edges, types, torch.ones(4))
    assert weighted.shape == (3, OUT)
    with pytest.raises(ValueError, match="needs as many sources as targets, got 7 and 3"):
        MRSGCNConv(IN, OUT)((senders, receivers), edges, types)


@sized
def test_a_shared_start_has_all_relations_equal_and_lets_them_part(name):
    layer = SIZED[name](IN, decay=1)
    types = torch.zeros_like(EXAMPLE.edge_type)
    start = EXAMPLE.run(layer)
    torch.testing.assert_close(start, layer(EXAMPLE.x, EXAMPLE.edge_index, types))
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    (start * torch.randn_like(start)).sum().backward()
    optimiser.step()
    moved = EXAMPLE.run(layer)
    assert not torch.allclose(moved, layer(EXAMPLE.x, EXAMPLE.edge_index, types))


@sized
def test_reset_draws_new_weights_and_keeps_the_common_start(name):
    layer = SIZED[name](IN)
    before = {n: p.clone() for n, p in layer.named_parameters()}
    layer.reset_parameters()
    changed = [n for n, p in layer.named_parameters() if not torch.equal(before[n], p)]
    assert any("common" in n for n in changed)
    types = torch.zeros_like(EXAMPLE.edge_type)
    torch.testing.assert_close(EXAMPLE.run(layer), layer(EXAMPLE.x, EXAMPLE.edge_index, types))


def test_reset_of_gin_reaches_every_network():
    def network():
        return torch.nn.Sequential(torch.nn.Linear(IN, 4), torch.nn.ReLU(), MLP([4, 4]))

    for start, number in (("shared", 1), ("independent", 3)):
        layer = MRSGINConv(network, train_eps=True, start=start)
        layer.eps.data += 1
        before = {name: value.clone() for name, value in layer.named_parameters() if "deviation" not in name}
        layer.reset_parameters()
        after = dict(layer.named_parameters())
        assert sum(not torch.equal(value, after[name]) for name, value in before.items()) >= 4 * number + 1
        assert layer.eps.tolist() == [0] * number


def test_gated_gcn_returns_new_edge_features():
    layer = MRSGatedGCNConv(IN, OUT, edge_dim=3)
    features = torch.randn(40, 3)
    nodes, edges = layer(EXAMPLE.x, EXAMPLE.edge_index, EXAMPLE.edge_type, edge_attr=features, return_edge_attr=True)
    assert nodes.shape == (12, OUT)
    assert edges.shape == (40, OUT)
    torch.testing.assert_close(edges.mean(0), torch.zeros(OUT), atol=1e-5, rtol=0)  # normalised


def test_attention_drops_coefficients_in_training_only():
    layer = MRSGATConv(IN, OUT, dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(EXAMPLE.run(layer), EXAMPLE.run(layer))
    layer.eval()
    assert torch.equal(EXAMPLE.run(layer), EXAMPLE.run(layer))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MRSGCNConv(0, 4), ValueError, "`in_channels` must be at least 1, or -1"),
        (lambda: MRSGCNConv(4, 0), ValueError, "`out_channels` must be at least 1, got 0"),
        (lambda: MRSGCNConv(4, 4, num_relations=0), ValueError, "`num_relations` must be at least 1, got 0"),
        (lambda: MRSSAGEConv(4, 4, aggr="max"), ValueError, '`aggr` must be "mean" or "sum"'),
        (lambda: MRSGATConv(4, 4, heads=0), ValueError, "`heads` must be at least 1, got 0"),
        (lambda: MRSGINConv(mlp(), start="independent"), TypeError, "`nn` must be a function that makes a module"),
        (lambda: MRSGINConv(torch.nn.ReLU), ValueError, "`nn` must begin with a linear map of known size"),
        (lambda: MRSConv(lambda: torch.nn.LazyLinear(2)), ValueError, "`message` must know its sizes"),
        (lambda: MRSGCNConv(4, 4, start="same"), ValueError, "`start` must be one of"),
        (lambda: MRSGCNConv(4, 4, decay=-1), ValueError, "`decay` must be at least 0, got -1"),
        (lambda: MRSConv(torch.nn.Linear(2, 2)), TypeError, "`message` must be a function that makes a module"),
    ],
)
def test_bad_options(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("layer", [MRSGATConv(IN, OUT), MRSGatedGCNConv(IN, OUT)])
def test_edge_features_must_be_announced(layer):
    with pytest.raises(ValueError, match="`edge_attr` must be None, got a tensor"):
        layer(EXAMPLE.x, EXAMPLE.edge_index, EXAMPLE.edge_type, edge_attr=torch.ones(40, 3))
    announced = type(layer)(IN, OUT, edge_dim=3)
    with pytest.raises(ValueError, match="`edge_attr` must be given when `edge_dim` is set, got None"):
        EXAMPLE.run(announced)


def test_gin_has_an_epsilon_of_its_own_for_every_relation():
    layer = MRSGINConv(mlp, train_eps=True, start="independent")
    layer.eps.data = torch.tensor([0.0, 1.0, 2.0])
    alone = torch.empty(2, 0, dtype=torch.long)
    out = layer(EXAMPLE.x, alone, torch.empty(0, dtype=torch.long))
    expected = sum(network((1 + eps) * EXAMPLE.x) for network, eps in zip(layer.nns.each, (0, 1, 2), strict=True))
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("gate_per_relation", [False, True])
def test_gated_gcn_of_one_relation_counts_scores(gate_per_relation):
    torch.manual_seed(0)
    options = {"gate_per_relation": gate_per_relation, "batch_norm": False, "start": "independent"}
    one, two = (MRSGatedGCNConv(IN, OUT, num_relations=number, **options).double() for number in (1, 2))
    # a second relation in which no edge is does not count
    state = {name: value.clone() for name, value in two.state_dict().items()}
    for name, value in one.state_dict().items():
        state[name][: value.size(0)] = value
    two.load_state_dict(state)
    x, scores = EXAMPLE.x.double(), torch.rand(40, 1, dtype=torch.double, requires_grad=True)
    ours = one(x, EXAMPLE.edge_index, scores)
    expected = two(x, EXAMPLE.edge_index, torch.cat([scores, torch.zeros_like(scores)], dim=1))
    torch.testing.assert_close(ours, expected)
    grads = [torch.autograd.grad(out.square().sum(), scores)[0] for out in (ours, expected)]
    assert grads[0].any()
    torch.testing.assert_close(*grads)
