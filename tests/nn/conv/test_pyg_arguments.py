"""PyG's constructor arguments on our layers: the same order, the same meaning."""

import inspect

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv

from graphprism import RelationalAdj
from graphprism.nn import DirConv, MRSGATConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.splitting import Graph, resolve_split

N, IN, OUT, RELATIONS = 7, 5, 4, 3
# a multi-edge, two loops of which one twice, and a node without edges
EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 4, 5, 5, 2, 0], [1, 0, 2, 3, 3, 3, 2, 5, 0, 1, 1]])
PAIRS = [(GCNConv, MRSGCNConv), (SAGEConv, MRSSAGEConv), (GATConv, MRSGATConv), (GINConv, MRSGINConv)]


def types() -> torch.Tensor:
    return resolve_split("degree")(Graph(EDGES, N))


def graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(N, IN).double(), torch.rand(EDGES.size(1)).double(), torch.randn(EDGES.size(1), 2).double()


@pytest.mark.parametrize(("plain", "ours"), PAIRS, ids=lambda layer: layer.__name__)
def test_arguments_of_pyg_come_first_and_ours_are_keywords(plain, ours):
    def positional(layer: type) -> list[str]:
        kinds = inspect.signature(layer.__init__).parameters.values()
        return [each.name for each in kinds if each.kind is each.POSITIONAL_OR_KEYWORD]

    assert positional(ours) == positional(plain)


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(IN, OUT), torch.nn.Tanh(), torch.nn.Linear(OUT, OUT))


STATES = {
    "sage": (lambda: SAGEConv(IN, OUT), lambda start: MRSSAGEConv(IN, OUT, start=start)),
    "sage, bare": (
        lambda: SAGEConv(IN, OUT, root_weight=False, bias=False),
        lambda start: MRSSAGEConv(IN, OUT, root_weight=False, bias=False, start=start),
    ),
    "sage, projected": (
        lambda: SAGEConv((IN, IN), OUT, "sum", normalize=True, project=True),
        lambda start: MRSSAGEConv((IN, IN), OUT, "sum", normalize=True, project=True, start=start),
    ),
    "sage, lazy": (lambda: SAGEConv(IN, OUT), lambda start: MRSSAGEConv(-1, OUT, start=start)),
    "graph": (lambda: GraphConv(IN, OUT), lambda start: MRSSAGEConv(IN, OUT, "sum", start=start)),
    "gin": (lambda: GINConv(mlp(), train_eps=True), lambda start: MRSGINConv(mlp(), train_eps=True)),
}


@pytest.mark.parametrize("start", ["shared", "independent"])
@pytest.mark.parametrize("name", STATES)
def test_state_of_the_plain_layer_loads(name, start):
    plain, ours = STATES[name][0]().double(), STATES[name][1](start).double()
    x, _, _ = graph()
    for parameter in plain.parameters():
        torch.nn.init.normal_(parameter)
    # in a network, so that names have a prefix
    torch.nn.ModuleList([ours]).load_state_dict(torch.nn.ModuleList([plain]).state_dict())
    torch.testing.assert_close(ours(x, EDGES, types()), plain(x, EDGES), rtol=1e-12, atol=1e-12)


def same_weights(ours: torch.nn.Module, plain: torch.nn.Module) -> None:
    ours.load_state_dict(plain.state_dict(), strict=True)


@pytest.mark.parametrize("improved", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_gcn_conv_adds_self_loops_as_pyg(improved, weighted, soft):
    x, weight, _ = graph()
    weight = weight if weighted else None
    plain = GCNConv(IN, OUT, improved).double()
    ours = MRSGCNConv(IN, OUT, improved, add_self_loops=True, num_relations=RELATIONS).double()
    same_weights(ours, plain)
    relations = torch.nn.functional.one_hot(types(), RELATIONS).double() if soft else types()
    torch.testing.assert_close(ours(x, EDGES, relations, weight), plain(x, EDGES, weight), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("normalize", [True, False])
def test_gcn_conv_normalizes_weights_as_pyg(normalize):
    x, weight, _ = graph()
    plain = GCNConv(IN, OUT, add_self_loops=False, normalize=normalize).double()
    ours = MRSGCNConv(IN, OUT, normalize=normalize, num_relations=RELATIONS).double()
    same_weights(ours, plain)
    torch.testing.assert_close(ours(x, EDGES, types(), weight), plain(x, EDGES, weight), rtol=1e-12, atol=1e-12)


def test_gcn_conv_puts_self_loops_into_the_last_relation():
    x, _, _ = graph()
    conv = MRSGCNConv(IN, OUT, add_self_loops=True, bias=False, num_relations=RELATIONS).double()
    conv.lin.set_(torch.stack([torch.zeros(IN, OUT), torch.zeros(IN, OUT), torch.ones(IN, OUT)]).double())
    alone = torch.tensor([[0], [1]])
    out = conv(x, alone, torch.tensor([0]))
    expected = x.sum(dim=1)
    expected[1] = expected[1] / 2  # node 1 has two incoming edges with its loop
    torch.testing.assert_close(out, expected[:, None].expand(N, OUT))


def test_gcn_conv_keeps_the_first_graph_where_cached():
    x, _, _ = graph()
    conv = MRSGCNConv(IN, OUT, False, True, num_relations=RELATIONS).double()
    first = conv(x, EDGES, types())
    assert torch.equal(conv(x, EDGES[:, :3], types()[:3]), first)
    conv.reset_parameters()
    other = MRSGCNConv(IN, OUT, num_relations=RELATIONS).double()
    other.load_state_dict(conv.state_dict())
    few = (x, EDGES[:, :3], types()[:3])
    assert torch.equal(conv(*few), other(*few)), "new weights, and the graph of the next call"


@pytest.mark.parametrize("options", [{}, {"edge_dim": 2}, {"edge_dim": 2, "fill_value": 0.5}])
@pytest.mark.parametrize("residual", [False, True])
def test_gat_conv_adds_self_loops_as_pyg(options, residual):
    x, _, attr = graph()
    attr = attr if options else None
    plain = GATConv(IN, OUT, 2, residual=residual, **options).double()
    ours = MRSGATConv(IN, OUT, 2, add_self_loops=True, residual=residual, num_relations=RELATIONS, **options).double()
    same_weights(ours, plain)
    out = ours(x, EDGES, types(), edge_attr=attr)
    torch.testing.assert_close(out, plain(x, EDGES, attr), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", [MRSGCNConv, MRSGATConv])
@pytest.mark.parametrize("weighted", [False, True])
def test_prepared_graph_keeps_the_one_with_self_loops(layer, weighted, monkeypatch):
    x, weight, _ = graph()
    weight = weight if weighted else None
    conv = layer(IN, OUT, add_self_loops=True).double()
    expected = conv(x, EDGES, types(), weight)
    adj = RelationalAdj(EDGES, types(), weight, num_relations=RELATIONS, num_nodes=N)
    torch.testing.assert_close(conv(x, adj), expected)
    monkeypatch.setattr(RelationalAdj, "in_forward", None)  # no graph is made any more
    torch.testing.assert_close(conv(x, adj), expected)


@pytest.mark.parametrize("layer", [MRSGCNConv, MRSGATConv])
def test_weights_with_gradients_are_not_kept_with_self_loops(layer):
    x, weight, _ = graph()
    conv = layer(IN, OUT, add_self_loops=True).double()
    weight.requires_grad_()
    adj = RelationalAdj(EDGES, types(), weight, num_relations=RELATIONS, num_nodes=N)
    for _ in range(2):
        conv(x, adj).square().sum().backward()
    assert weight.grad.abs().max() > 0


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("fill_value", ["mean", 0.3])
def test_gat_conv_takes_one_number_for_each_edge_as_pyg(loops, fill_value):
    x, numbers, _ = graph()
    options = {"edge_dim": 1, "add_self_loops": loops, "fill_value": fill_value}
    plain, ours = GATConv(IN, OUT, **options).double(), MRSGATConv(IN, OUT, num_relations=RELATIONS, **options).double()
    ours.load_state_dict(plain.state_dict())
    torch.testing.assert_close(ours(x, EDGES, types(), edge_attr=numbers), plain(x, EDGES, numbers))


def test_features_in_the_place_of_weights_are_refused_with_the_name_that_they_need():
    x, numbers, rows = graph()
    layer = MRSGATConv(IN, OUT, edge_dim=2, num_relations=RELATIONS).double()
    with pytest.raises(ValueError, match=r"must have shape \[11\], got \[11, 2\]; layers .* have `edge_attr=`"):
        layer(x, EDGES, types(), rows)
    layer = MRSGATConv(IN, OUT, edge_dim=1, num_relations=RELATIONS).double()
    with pytest.raises(ValueError, match="got `edge_weight`, which comes before it: pass `edge_attr=`"):
        layer(x, EDGES, types(), numbers)


def test_gcn_conv_refuses_self_loops_without_normalisation():
    with pytest.raises(ValueError, match="`normalize` must be None or True with `add_self_loops`"):
        MRSGCNConv(IN, OUT, add_self_loops=True, normalize=False)


def test_dir_conv_refuses_a_layer_that_adds_self_loops():
    with pytest.raises(ValueError, match="must add no self-loops"):
        DirConv(lambda: MRSGCNConv(IN, OUT, add_self_loops=True))
