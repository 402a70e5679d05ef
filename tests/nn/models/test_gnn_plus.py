"""GCN+, GIN+ and GatedGCN+ as options of `GNN`."""

import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Batch, Data

from graphprism.nn import GNN
from graphprism.nn.models.blocks import FeedForward
from graphprism.nn.models.gnn_options import splits_of
from graphprism.splitting import by_order
from graphprism.testing import molecules, tolerance
from graphprism.transforms import RandomWalkPE

EXACT = tolerance(torch.double)
STEPS = 6
ATOMS, BONDS = (119, 5, 12, 12, 10, 6, 6, 2, 2), (5, 6, 2)
ZINC = {"num_node_types": 21, "num_edge_types": 4, "pe_channels": 28, "edge_walks": True, "ffn": True, "residual": True}
PEPTIDES = {"num_node_types": ATOMS, "num_edge_types": BONDS, "pe_channels": 28, "walk_steps": 32, "head": "constant"}
HIV = {"num_node_types": ATOMS, "num_edge_types": BONDS, "pe_channels": 16, "walk_steps": 20}
# Parameters of the authors' networks (arXiv 2502.09263), which follow from their configurations.
PUBLISHED = [
    (("gcne", 64, 1, 12), {**ZINC, "walk_steps": 32, "norm": "batch", "head_layers": 3}, 260_177),
    (("gine", 80, 1, 12), {**ZINC, "walk_steps": 20, "head_layers": 3}, 477_241),
    (("gated-gcn", 70, 1, 9), {**ZINC, "walk_steps": 20, "head_layers": 3}, 413_355),
    (("gcne", 275, 10, 3), {**PEPTIDES, "norm": "batch", "head_layers": 4}, 507_351),
    (("gine", 240, 10, 3), {**PEPTIDES, "residual": True, "head_layers": 3}, 506_126),
    (("gated-gcn", 135, 10, 5), {**PEPTIDES, "head_layers": 3}, 521_141),
    (("gcne", 256, 1, 4), {**HIV, "norm": "batch", "ffn": True, "head_layers": 3}, 1_407_641),
    (("gine", 256, 1, 3), {**HIV, "residual": True, "head_layers": 3}, 481_433),
    (("gated-gcn", 256, 1, 3), {**HIV, "residual": True, "head_layers": 3}, 1_076_633),
]


def make_data(count=3):
    parts = []
    for graph in molecules(count):
        bonds = torch.arange(graph.edge_index.size(1)) % 4
        data = Data(graph.x, graph.edge_index, edge_attr=bonds, edge_type=by_order("degree")(graph))
        parts.append(RandomWalkPE(STEPS, edge_attr_name="edge_pe")(data))
    return Batch.from_data_list(parts)


def run(model, data, **more):
    named = {"edge_attr": data.edge_attr, "pe": data.pe, "edge_pe": data.edge_pe, "batch": data.get("batch")}
    return model(data.x, data.edge_index, data.edge_type, **named, **more)


def make_model(conv, layers=3, **options):
    torch.manual_seed(0)
    whole = {"num_node_types": 28, "num_edge_types": 4, "readout": "sum", "pe_channels": 3, "pe_encoder": "walk"}
    whole |= {"walk_steps": STEPS, "edge_walks": True, "residual": True, "ffn": True, "head_layers": 3}
    model = GNN(conv, 8, 2, layers, **{**whole, **options}).double()
    for name, parameter in model.named_parameters():
        if "deviation" in name:
            torch.nn.init.normal_(parameter)
    return model


CONVS = ("gcne", "mrs-gcne", "gine", "mrs-gine", "gated-gcn", "mrs-gated-gcn")
convs = pytest.mark.parametrize("conv", CONVS)


@pytest.mark.parametrize(("sizes", "options", "expected"), PUBLISHED)
def test_parameters_are_those_published(sizes, options, expected):
    model = GNN(*sizes, **options, pe_encoder="walk", readout="sum")
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_layer_by_layer():
    data, model = make_data(), make_model("mrs-gcne", norm="batch", dropout=0.0)
    h = torch.cat([model.encoder(data.x.view(-1)), model.pe_encoder.lin(model.pe_encoder.norm(data.pe.double()))], 1)
    e = model.edge_encoder(data.edge_attr) + model.walk_encoder(data.edge_pe.double())
    for conv, norm, ffn in zip(model.convs, model.norms, model.ffns, strict=True):
        h = h + norm(conv(h, data.edge_index, data.edge_type, edge_attr=e)).relu()
        h = ffn.norm_in(h)
        h = ffn.norm_out(h + ffn.lin_out(ffn.lin_in(h).relu()))
    h = torch.zeros(3, 8).double().index_add(0, data.batch, h)
    first, second, last = model.head.lins
    assert [each.out_channels for each in model.head.lins] == [4, 2, 2]
    torch.testing.assert_close(run(model, data), last(second(first(h).relu()).relu()), **EXACT)


@convs
def test_numbering_of_nodes(conv):
    data, model = make_data(1), make_model(conv)
    nodes, order = torch.randperm(data.num_nodes), torch.randperm(data.num_edges)
    moved = Data(
        data.x[nodes],
        nodes.argsort()[data.edge_index][:, order],
        edge_attr=data.edge_attr[order],
        edge_type=data.edge_type[order],
        pe=data.pe[nodes],
        edge_pe=data.edge_pe[order],
    )
    torch.testing.assert_close(run(model, moved), run(model, data), **EXACT)


@convs
def test_batch_is_its_parts(conv):
    data, model = make_data(), make_model(conv).eval()
    parts = [run(model, part) for part in data.to_data_list()]
    torch.testing.assert_close(run(model, data), torch.cat(parts), **EXACT)


@convs
@pytest.mark.parametrize("options", [{}, {"norm": "batch", "dropout": 0.2, "edge_dropout": True}, {"head": "constant"}])
def test_every_parameter_learns(conv, options):
    model = make_model(conv, **options)
    run(model, make_data()).square().sum().backward()
    unread = f"convs.{len(model.convs) - 1}.norm_edge"  # nobody reads the states of edges after the last layer
    names = {name for name, each in model.named_parameters() if each.grad is None and not name.startswith(unread)}
    assert not names


@pytest.mark.parametrize(("split_layers", "splits"), [("early", [1, 1, 0]), ("late", [0, 0, 1])])
@pytest.mark.parametrize("conv", ["mrs-gcne", "mrs-gine", "mrs-gated-gcn"])
def test_split_layers(conv, split_layers, splits):
    data, model = make_data(), make_model(conv, split_layers=split_layers)
    assert [layer.num_relations for layer in model.convs] == [3 if here else 1 for here in splits]
    assert splits_of(split_layers, 3) == [bool(each) for each in splits]
    out = run(model, data)
    # a layer that does not split is the plain one: with no deviations the network is the plain network
    plain = make_model(conv.removeprefix("mrs-"))
    state = {name: value for name, value in model.state_dict().items() if name in plain.state_dict()}
    model.load_state_dict(
        {name: 0 * value if "deviation" in name else value for name, value in model.state_dict().items()}
    )
    equal = run(model, data)
    plain.load_state_dict({**plain.state_dict(), **state, **common(model)})
    torch.testing.assert_close(equal, run(plain, data), **EXACT)
    assert not torch.allclose(out, equal)


def common(model):
    """What relations have in common, by the names of the plain network."""
    found = {}
    for name, value in model.state_dict().items():
        if name.endswith("common"):
            found[name.removesuffix("common") + "weight"] = value[None]
    return found


def test_gelu_comes_before_dropout():
    model, data = make_model("gcne", activation="gelu", ffn=False, head_layers=1, layers=1, residual=False), make_data()
    h = model._encode(data.x, data.pe, None)
    e = model._encode_edges(data.edge_attr, data.edge_pe)
    expected = functional.gelu(model.convs[0](h, data.edge_index, edge_attr=e))
    expected = model.head(torch.zeros(3, 8).double().index_add(0, data.batch, expected))
    torch.testing.assert_close(run(model, data), expected, **EXACT)


def test_dropout_of_edges_and_head_is_seeded():
    data = make_data()
    options = {"dropout": 0.4, "residual": False, "ffn": False, "head": "constant"}
    for more in ({}, {"edge_dropout": True}):
        model = make_model("gated-gcn", **options, **more)
        first, second, third = (run(model, data, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
        torch.testing.assert_close(first, second, **EXACT)
        assert not torch.allclose(first, third)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "tanh"}, "`activation` must be one of"),
        ({"head": "wide"}, "`head` must be one of"),
        ({"split_layers": "some"}, "`split_layers` must be one of"),
        ({"head_layers": 0}, "`head_layers` must be"),
        ({"walk_steps": 0}, "`walk_steps` must be at least 1, got 0"),
        (
            {"pe_encoder": None, "pe_channels": 6, "edge_walks": False},
            '`walk_steps` must be 0 without pe_encoder="walk"',
        ),
        ({"num_edge_types": None}, "`edge_walks` must be False without"),
        ({"normalize": True}, "`normalize` must be False with a feed-forward block"),
        (
            {"conv": "pyg-rgcn", "split_layers": "late", "ffn": False},
            "`split_layers` must be \"all\" for custom layers, those of PyG, or several splits, got 'late'",
        ),
        (
            {"conv": "mrs-gcne", "num_relations": [3, 2], "split_layers": "late"},
            '`split_layers` must be "all" for custom layers',
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_model(**{"conv": "gcne", **options})


def test_positions_must_have_their_shapes():
    data, model = make_data(), make_model("gcne")
    with pytest.raises(ValueError, match=rf"`pe` must have shape \[N, {STEPS}\], got None"):
        model(data.x, data.edge_index, edge_attr=data.edge_attr)
    with pytest.raises(ValueError, match=r"`edge_pe` must have shape .* with `edge_walks`, got None"):
        model(data.x, data.edge_index, edge_attr=data.edge_attr, pe=data.pe)


def test_feed_forward_leaves_padding_out_of_its_norms():
    torch.manual_seed(0)
    padded, plain = FeedForward(4).double(), FeedForward(4).double()
    plain.load_state_dict(padded.state_dict())
    x = torch.randn(9, 4, dtype=torch.double)
    mask = torch.tensor([True] * 6 + [False] * 3)
    torch.testing.assert_close(padded(x, mask)[:6], plain(x[:6]), **EXACT)
    torch.testing.assert_close(padded.state_dict(), plain.state_dict())
