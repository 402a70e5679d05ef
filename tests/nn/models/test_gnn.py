import pickle
from functools import reduce
from itertools import pairwise

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, MLP, GATConv, GCNConv, GINConv, SAGEConv

from graphprism.nn import CONVOLUTIONS, GNN, MRSGCNConv
from graphprism.ops import RelationalAdj
from graphprism.ops.relu_normalize import larger
from graphprism.splitting import by_order
from graphprism.testing import molecules, tolerance
from tests.nn.conv.cases import GRAPHS, IN, make_example
from tests.pairwise import all_pairs, in_turn

WIDTH, CLASSES = 6, 3
EXACT = tolerance(torch.double)

# Width and number of parameters of eight layers on ZINC: the paper's parameter table. MRS-GCN there is 496,656, which
# counts two constants of its code in every layer.
TABLE = {
    "gcn": (247, 498_200),
    "mrs-gcn": (143, 496_640),
    "sage": (175, 497_176),
    "mrs-sage": (124, 497_117),
    "gat": (174, 497_119),
    "gat-degree": (174, 497_151),
    "mrs-gat": (101, 497_022),
    "gin": (143, 498_928),
    "mrs-gin": (101, 497_830),
    "gated-gcn": (110, 495_551),
    "mrs-gated-gcn-9": (82, 495_363),
}


def make_data(count=3):
    parts = []
    for graph in molecules(count):
        bonds = torch.arange(graph.edge_index.size(1)) % 4
        parts.append(Data(graph.x, graph.edge_index, edge_attr=bonds, edge_type=by_order("degree")(graph)))
    return Batch.from_data_list(parts)


def run_graphs(model, data, **more):
    return model(data.x, data.edge_index, data.edge_type, edge_attr=data.edge_attr, batch=data.batch, **more)


def make_graph_model(conv, width=8, **options):
    torch.manual_seed(0)
    options = {"num_node_types": 28, "num_edge_types": 4, "readout": "sum", "start": "independent", **options}
    return GNN(conv, width, 1, 3, **options).double()


@pytest.mark.parametrize("conv", TABLE)
def test_parameters_are_those_of_the_paper(conv):
    width, expected = TABLE[conv]
    model = GNN(conv, width, 1, 8, num_node_types=28, num_edge_types=4, readout="sum", start="independent")
    # the table counts an embedding of four bond types also where the convolution has no use for it
    unused = 0 if model.edge_encoder is not None else 4 * width
    assert sum(parameter.numel() for parameter in model.parameters()) + unused == expected


def test_the_formula_of_mrs_gated_gcn_has_seven_maps():
    d = 82
    seven, nine = (CONVOLUTIONS[name].make(d, d, edge_dim=d) for name in ("mrs-gated-gcn", "mrs-gated-gcn-9"))
    assert sum(p.numel() for p in seven.parameters()) == 7 * (d * d + d) + 4 * d
    assert sum(p.numel() for p in nine.parameters()) == 9 * (d * d + d) + 4 * d


@in_turn(
    conv=[*CONVOLUTIONS, "mrs-gcn"],
    options=[
        {"residual": True},
        {"jk": "cat"},
        {"jk": "max"},
        {"jk": "lstm"},
        {"norm": "batch"},
        {"readout": None},
        {},
    ],
)
def test_every_convolution_runs_in_every_form_and_learns(conv, options):
    data, model = make_data(), make_graph_model(conv, **options)
    out = run_graphs(model, data)
    assert out.shape == (data.num_nodes if options.get("readout", "sum") is None else 3, 1)
    out.square().sum().backward()
    # the last layer of a gated network makes edge features that nobody reads
    dead = [n for n, p in model.named_parameters() if p.grad is None and "convs.2.norm_edge" not in n]
    assert not dead


@pytest.mark.parametrize("conv", [name for name, conv in CONVOLUTIONS.items() if not conv.has_batch_norm])
def test_a_batch_gives_what_its_parts_give(conv):
    data, model = make_data(), make_graph_model(conv)
    parts = [model(part.x, part.edge_index, part.edge_type, edge_attr=part.edge_attr) for part in data.to_data_list()]
    torch.testing.assert_close(run_graphs(model, data), torch.cat(parts), **tolerance(torch.double))


@pytest.mark.parametrize("readout", ["sum", None])
@pytest.mark.parametrize("norm", ["layer", "graph", "instance", "pair"])
def test_every_graph_of_a_batch_is_normalised_by_itself(norm, readout):
    data, model = make_data(), make_graph_model("mrs-gcn", norm=norm, readout=readout)
    alone = torch.cat([run_graphs(model, Batch.from_data_list([part])) for part in data.to_data_list()])
    for more in ({}, {"batch_size": 3}):
        torch.testing.assert_close(run_graphs(model, data, **more), alone, **EXACT)
    # as in PyG's own models
    plain = GCN(5, 6, 2, norm=norm).double()
    ours = GNN(lambda width: GCNConv(-1, width), 6, 1, 2, in_channels=5, norm=norm, encode=False, jk="cat").double()
    ours(torch.randn(data.num_nodes, 5).double(), data.edge_index)
    ours.convs[0].load_state_dict(plain.convs[0].state_dict())
    x = torch.randn(data.num_nodes, 5).double()
    found = []
    ours.convs[1].register_forward_pre_hook(lambda _, arguments: found.append(arguments[0]))
    ours(x, data.edge_index, batch=data.batch)
    first = plain.norms[0](plain.convs[0](x, data.edge_index), data.batch, 3).relu()
    torch.testing.assert_close(found[0], first, **EXACT)


def test_it_is_the_stack_it_says_it_is():
    data = make_data()
    model = make_graph_model("mrs-gcn", residual=True, jk="cat", readout="mean")
    h, states = model.encoder(data.x.view(-1)), []
    for conv in model.convs:
        h = h + conv(h, data.edge_index, data.edge_type).relu()
        states.append(h)
    means = torch.stack([torch.cat(states, 1)[data.batch == g].mean(0) for g in range(3)])
    torch.testing.assert_close(run_graphs(model, data), model.head(means), **tolerance(torch.double))


def test_positional_features_take_the_last_channels():
    data, model = make_data(), make_graph_model("mrs-gcn", pe_channels=3)
    assert model.encoder.weight.shape == (28, 5)
    pe = torch.randn(data.num_nodes, 3)
    assert not torch.allclose(run_graphs(model, data, pe=pe), run_graphs(model, data, pe=-pe))
    for wrong in (None, pe[:, :2]):
        with pytest.raises(ValueError, match=r"`pe` must have 3 channels"):
            run_graphs(model, data, pe=wrong)


def test_features_instead_of_types_and_a_convolution_of_your_own():
    data = make_data()
    model = GNN(lambda width: MRSGCNConv(width, width, num_relations=3), 8, 2, 2)
    assert model(torch.randn(data.num_nodes, 7), data.edge_index, data.edge_type).shape == (data.num_nodes, 2)


@pytest.mark.parametrize("conv", ["mrs-gcn", "gcn"])
def test_a_prepared_graph(conv):
    data, model = make_data(), make_graph_model(conv)
    adj = RelationalAdj(data.edge_index, data.edge_type, num_relations=3, num_nodes=data.num_nodes)
    torch.testing.assert_close(model(data.x, adj, batch=data.batch), run_graphs(model, data), **tolerance(torch.double))


def test_reset_draws_new_weights():
    model = make_graph_model("mrs-gated-gcn", norm="batch")
    before = [p.clone() for p in model.parameters() if p.dim() > 1]
    model.reset_parameters()
    assert all(
        not torch.equal(a, b) for a, b in zip(before, (p for p in model.parameters() if p.dim() > 1), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv": "mrs-gnc"}, r"`conv` must be a function of the width or one of \['dir-gat', .* got 'mrs-gnc'"),
        ({"jk": "sum"}, '`jk` must be None, "cat", "max" or "lstm", got \'sum\''),
        ({"num_layers": 0}, "`num_layers` must be at least 1, got 0"),
        ({"pe_channels": 8}, r"`pe_channels` must be in \[0, 8\), the width, got 8"),
    ],
)
def test_bad_options(change, message):
    options = {"conv": "gcn", "hidden_channels": 8, "out_channels": 1, "num_layers": 1, **change}
    with pytest.raises(ValueError, match=message):
        GNN(**options)


def test_bad_input():
    data = make_data()
    with pytest.raises(ValueError, match=r"`x` must hold one integer type in each row, got torch\.float32"):
        make_graph_model("gcn")(data.x.float(), data.edge_index)
    with pytest.raises(ValueError, match="`edge_attr` must hold one integer type in each row, got None"):
        make_graph_model("gated-gcn")(data.x, data.edge_index)
    with pytest.raises(ValueError, match="`edge_weight` must be None with SAGEConv, which takes edges without weights"):
        make_graph_model(lambda c: SAGEConv(c, c))(data.x, data.edge_index, edge_weight=torch.ones(data.num_edges))


def test_several_columns_of_types_are_added():
    data = make_data()
    types = torch.stack([data.x.view(-1), data.x.view(-1) % 5], dim=1)
    model = make_graph_model("mrs-gated-gcn", num_node_types=[28, 5], num_edge_types=[4, 2])
    rows = model.encoder.weight[types[:, 0]] + model.encoder.weight[28 + types[:, 1]]
    torch.testing.assert_close(model.encoder(types), rows)
    bonds = torch.stack([data.edge_attr, data.edge_attr % 2], dim=1)
    assert model(types, data.edge_index, data.edge_type, edge_attr=bonds, batch=data.batch).shape == (3, 1)
    with pytest.raises(ValueError, match=r"`x` must hold 2 integer types in each row, got torch\.int64 of shape"):
        model(data.x, data.edge_index, data.edge_type)


PYG = {
    "gcn": lambda c: GCNConv(c, c, add_self_loops=False),
    "sage": lambda c: SAGEConv(c, c),
    "gat": lambda c: GATConv(c, c, heads=2, concat=False, add_self_loops=False),
    "gin": lambda c: GINConv(MLP([c, c, c, c], norm=None)),
}


@pytest.mark.parametrize("conv", PYG)
def test_a_plain_convolution_is_as_large_as_that_of_pyg(conv):
    ours, theirs = CONVOLUTIONS[conv].make(8, 8), PYG[conv](8)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def make_node_model(conv, layers=3, **options):
    torch.manual_seed(0)
    options = {"start": "independent", **options}
    return GNN(conv, WIDTH, CLASSES, layers, in_channels=IN, encode=False, **options).double()


def make_input(graph="random"):
    example = make_example(GRAPHS[graph])
    return example.x, example.edge_index, example.edge_type


def matrices_of(edge_index, edge_type, num_nodes):
    """Entry (i, j) of matrix r: edges from j to i of relation r, normalised by both ends; and its counterpart."""
    matrices = torch.zeros(3, num_nodes, num_nodes, dtype=torch.double)
    matrices.index_put_((edge_type, edge_index[1], edge_index[0]), torch.ones(()).double(), accumulate=True)
    whole = matrices.sum(0)
    return whole.sum(1).clamp(min=1).rsqrt()[:, None] * matrices * whole.sum(0).clamp(min=1).rsqrt()


def written_out(model, x, edge_index, edge_type, alpha):
    """Dir-GNN with dense matrices, from its definition."""
    matrices = matrices_of(edge_index, edge_type, x.size(0))
    h, states = x, []
    for number, conv in enumerate(model.convs):
        parts = []
        for layer, way, share in ((conv.conv_out, matrices.mT, alpha), (conv.conv_in, matrices, 1 - alpha)):
            way = way if layer.num_relations == 3 else way.sum(0, keepdim=True)
            parts.append(share * (sum(m @ h @ w for m, w in zip(way, layer.lin.weight, strict=True)) + layer.bias))
        h = sum(parts)
        if model.jk is not None or number < len(model.convs) - 1:
            h = h.clamp(min=0)
            h = h / h.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12) if model.normalize else h
        states.append(h)
    if model.jk is None:
        return h
    joined = torch.cat(states, 1) if model.jk == "cat" else reduce(torch.maximum, states)
    return joined @ model.head.weight.T + model.head.bias


@all_pairs(
    conv=["dir-gcn", "mrs-dir-gcn"], jk=[None, "cat", "max"], normalize=[False, True], graph=["random", "directed"]
)
def test_it_is_its_definition(conv, jk, normalize, graph):
    model = make_node_model(conv, jk=jk, normalize=normalize, alpha=0.3)
    for name, weight in model.named_parameters():  # biases start at zero, where they would hide a mistake
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    data = make_input(graph)
    torch.testing.assert_close(model(*data), written_out(model, *data, 0.3), **EXACT)


@in_turn(conv=[*CONVOLUTIONS, "mrs-gcn"], jk=[None, "cat", "max"])
def test_every_form_runs_and_learns(conv, jk):
    model = make_node_model(conv, jk=jk, normalize=True, dropout=0.1)
    out = model(*make_input())
    assert out.shape == (12, CLASSES)
    out.square().sum().backward()
    # nobody reads the edge features of gated layers without types of edges
    dead = [name for name, weight in model.named_parameters() if weight.grad is None and "norm_edge" not in name]
    assert not dead


@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_node_network_takes_a_prepared_graph(conv):
    x, edge_index, edge_type = make_input()
    model = make_node_model(conv, jk="max")
    types = {"edge_type": edge_type, "num_relations": 3} if CONVOLUTIONS[conv].relational else {}
    adj = RelationalAdj(edge_index, num_nodes=12, **types)
    torch.testing.assert_close(model(x, adj), model(x, edge_index, edge_type), **EXACT)


@pytest.mark.parametrize(
    ("conv", "alpha", "expected"),
    [
        # in, between, out; weights and bias of each convolution
        ("mlp", 0.5, (IN + 1) * WIDTH + (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES),
        ("mrs-gcn", 0.5, (3 * IN + 1) * WIDTH + (3 * WIDTH + 1) * WIDTH + (3 * WIDTH + 1) * CLASSES),
        ("dir-gcn", 0.5, 2 * ((IN + 1) * WIDTH + (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES)),
        ("mrs-dir-gcn", 1.0, (3 * IN + 1) * WIDTH + (3 * WIDTH + 1) * WIDTH + (3 * WIDTH + 1) * CLASSES),
        # one matrix for the node itself, one for the neighbours of each direction
        ("dir-sage", 0.5, (3 * IN + 2) * WIDTH + (3 * WIDTH + 2) * WIDTH + (3 * WIDTH + 2) * CLASSES),
        ("mrs-dir-sage", 0.5, (7 * IN + 2) * WIDTH + (7 * WIDTH + 2) * WIDTH + (7 * WIDTH + 2) * CLASSES),
    ],
)
def test_parameters(conv, alpha, expected):
    model = make_node_model(conv, alpha=alpha)
    assert sum(weight.numel() for weight in model.parameters()) == expected


def _repeated(plain, relations):
    """The state of a plain network for one with relations; ``None`` as what they have in common."""
    state = {}
    for name, value in plain.state_dict().items():
        if value.dim() == 3 and name.endswith("lin.weight"):
            name = name if relations else name.replace("lin.weight", "lin.common")
            value = value.expand(relations, -1, -1) if relations else value[0]
        state[name] = value
    return state


@pytest.mark.parametrize("layer", ["gcn", "sage", "gat", "dir-gcn", "dir-sage", "dir-gat"])
def test_relations_that_start_alike_start_as_the_plain_network(layer):
    plain = make_node_model(layer, jk="cat")
    for decay in (0.0, 1000.0):
        split = make_node_model(f"mrs-{layer}", jk="cat", start="shared", decay=decay)
        split.load_state_dict({**split.state_dict(), **_repeated(plain, 3 if decay == 0 else None)}, strict=False)
        torch.testing.assert_close(split(*make_input()), plain(*make_input()), **EXACT)
    assert not torch.allclose(make_node_model(f"mrs-{layer}", jk="cat")(*make_input()), plain(*make_input()))


@pytest.mark.parametrize("normalize", [False, True])
def test_a_generator_decides_what_is_dropped(normalize):
    model, data = make_node_model("mrs-dir-gcn", jk="max", normalize=normalize, dropout=0.5), make_input()

    def run(seed):
        return model(*data, generator=torch.Generator().manual_seed(seed))

    torch.testing.assert_close(run(1), run(1), rtol=0, atol=0)
    assert not torch.equal(run(1), run(2))
    model.eval()
    torch.testing.assert_close(run(1), run(2), rtol=0, atol=0)


def test_dropout_keeps_the_mean():
    model = GNN("mlp", 100_000, 1, 1, in_channels=1, encode=False, jk="cat", dropout=0.3)
    with torch.no_grad():
        model.convs[0].weight.fill_(1)
        model.convs[0].bias.zero_()
        model.head.weight.fill_(1 / 100_000)
        model.head.bias.zero_()
    out = model(torch.ones(1, 1))
    assert out.item() == pytest.approx(1, abs=0.02)
    assert out.item() != 1


def test_one_layer_without_jumping_knowledge_is_its_convolution():
    model = make_node_model("mrs-gcn", layers=1, normalize=True, dropout=0.9)
    torch.testing.assert_close(model(*make_input()), model.convs[0](*make_input()), rtol=0, atol=0)


def test_the_larger_of_two_states_and_its_gradients():
    torch.manual_seed(0)
    states = [torch.randn(5, 4, dtype=torch.double, requires_grad=True) for _ in range(2)]
    torch.testing.assert_close(larger(*states), torch.maximum(*states), rtol=0, atol=0)
    assert torch.autograd.gradcheck(larger, states)
    assert torch.autograd.gradgradcheck(lambda *s: larger(*s).square(), states)
    tie = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    larger(*tie).backward()
    assert [float(state.grad) for state in tie] == [1, 0]


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-dir-gcn", "mrs-dir-sage", "mlp"])
def test_a_layer_that_is_watched_shows_its_whole_output(conv):
    model, data = make_node_model(conv, jk="max", normalize=True, alpha=0.3), make_input()
    expected, seen = model(*data), []
    for layer in model.convs:
        layer.register_forward_hook(lambda _layer, args, out: seen.append((args[0], out)))
    torch.testing.assert_close(model(*data), expected, **EXACT)
    assert len(seen) == 3
    for (_, out), (following, _) in pairwise(seen):
        torch.testing.assert_close(torch.nn.functional.normalize(out.relu(), dim=-1), following, **EXACT)


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-dir-gcn", "mrs-dir-sage"])
@pytest.mark.parametrize("jk", [None, "cat", "max"])
def test_what_is_dropped_counts_as_if_it_was_scaled(conv, jk):
    # the lengths take the scale of dropout out again: what was to be seen
    model, data = make_node_model(conv, jk=jk, normalize=True, dropout=0.4), make_input()

    def run(watched):
        handles = [layer.register_forward_hook(lambda _, __, out: out / 0.6) for layer in model.convs[:-1] if watched]
        out = model(*data, generator=torch.Generator().manual_seed(3))
        for handle in handles:
            handle.remove()
        return out, torch.autograd.grad(out.square().sum(), model.parameters())

    for plain, scaled in zip(*map(run, (False, True)), strict=True):
        torch.testing.assert_close(plain, scaled, **EXACT)


def test_node_network_draws_new_weights_at_reset():
    model = make_node_model("mrs-dir-sage", jk="cat")
    before = [weight.clone() for weight in model.parameters()]
    model.reset_parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conv": "dir-gin"}, r"`conv` must be .* one of \['dir-gat', .*'sage'\], got 'dir-gin'"),
        ({"jk": "sum"}, "`jk` must be None"),
        ({"layers": 0}, "`num_layers` must be at least 1, got 0"),
        ({"alpha": 2.0}, r"`alpha` must be in \[0, 1\], got 2.0"),
    ],
)
def test_bad_arguments_without_encoder(options, words):
    with pytest.raises(ValueError, match=words):
        make_node_model(**{"conv": "dir-gcn", **options})


def test_a_network_with_edges_wants_them():
    with pytest.raises(ValueError, match="`edge_index` must be given with gcn, got None"):
        make_node_model("gcn")(make_input()[0])


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("jk", ["cat", "max"])
def test_options_of_both_forms_go_together(jk, normalize):
    model = make_node_model("mrs-dir-gcn", jk=jk, normalize=normalize, residual=True, norm="batch", readout="mean")
    x, *graph = make_input()
    h, states = x, []
    for conv, norm in zip(model.convs, model.norms, strict=True):
        new = norm(conv(h, *graph)).relu()
        new = torch.nn.functional.normalize(new, dim=-1) if normalize else new
        h = new if h is x else h + new  # the first layer changes the width
        states.append(h)
    joined = torch.cat(states, 1) if jk == "cat" else reduce(torch.maximum, states)
    expected = model.head(joined.mean(0, keepdim=True))
    torch.testing.assert_close(model(x, *graph), expected, **EXACT)


def test_generator_decides_what_is_dropped_with_an_encoder():
    data, model = make_data(), make_graph_model("mrs-gcn", dropout=0.5)
    first, again, other = (run_graphs(model, data, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("options", [{"num_node_types": 5}, {"pe_channels": 2}])
def test_network_without_encoder_rejects_what_is_encoded(options):
    with pytest.raises(ValueError, match="`num_node_types` and `pe_channels` must be None and 0 without"):
        make_node_model("gcn", **options)


def test_gated_network_without_encoder_takes_types_of_edges():
    x, edge_index, edge_type = make_input()
    kinds = torch.arange(edge_index.size(1)) % 4
    model = make_node_model("mrs-gated-gcn", num_edge_types=4, residual=True)
    assert model(x, edge_index, edge_type, edge_attr=kinds).shape == (12, CLASSES)


def test_larger_keeps_nan():
    nan = float("nan")
    found = larger(torch.tensor([nan, 1.0, nan]), torch.tensor([1.0, nan, nan]))
    assert found.isnan().all()


def test_network_pickles():
    model = make_graph_model("mrs-gcn")
    data, copied = make_data(), pickle.loads(pickle.dumps(model))
    torch.testing.assert_close(run_graphs(copied, data), run_graphs(model, data), rtol=0, atol=0)
