import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP, GATConv, GCNConv, GINConv, SAGEConv

from graphprism.nn import MRSGNN, MRSGCNConv
from graphprism.nn.models import CONVOLUTIONS
from graphprism.ops import RelationalAdj
from graphprism.splitting import by_order
from graphprism.testing import molecules, tolerance

# Width and number of parameters of eight layers on ZINC: the paper's parameter table. MRS-GCN there is 496,656, which
# counts two constants of its code in every layer.
TABLE = {
    "gcn": (247, 498_200),
    "mrs-gcn": (143, 496_640),
    "sage": (175, 497_176),
    "mrs-sage": (124, 497_117),
    "gat": (174, 497_119),
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


def run(model, data, **more):
    return model(data.x, data.edge_index, data.edge_type, edge_attr=data.edge_attr, batch=data.batch, **more)


def make_model(conv, width=8, **options):
    torch.manual_seed(0)
    options = {"num_node_types": 28, "num_edge_types": 4, "readout": "sum", **options}
    return MRSGNN(conv, width, 1, 3, **options).double()


@pytest.mark.parametrize("conv", TABLE)
def test_parameters_are_those_of_the_paper(conv):
    width, expected = TABLE[conv]
    model = MRSGNN(conv, width, 1, 8, num_node_types=28, num_edge_types=4, readout="sum")
    # the table counts an embedding of four bond types also where the convolution has no use for it
    unused = 0 if model.edge_encoder is not None else 4 * width
    assert sum(parameter.numel() for parameter in model.parameters()) + unused == expected


def test_the_formula_of_mrs_gated_gcn_has_seven_maps():
    d = 82
    seven, nine = (CONVOLUTIONS[name](d, 3, d) for name in ("mrs-gated-gcn", "mrs-gated-gcn-9"))
    assert sum(p.numel() for p in seven.parameters()) == 7 * (d * d + d) + 4 * d
    assert sum(p.numel() for p in nine.parameters()) == 9 * (d * d + d) + 4 * d


@pytest.mark.parametrize("conv", CONVOLUTIONS)
@pytest.mark.parametrize(
    "options", [{}, {"residual": True}, {"jk": "cat"}, {"jk": "max"}, {"norm": "batch"}, {"readout": None}]
)
def test_every_convolution_runs_in_every_form_and_learns(conv, options):
    data, model = make_data(), make_model(conv, **options)
    out = run(model, data)
    assert out.shape == (data.num_nodes if options.get("readout", "sum") is None else 3, 1)
    out.square().sum().backward()
    # the last layer of a gated network makes edge features that nobody reads
    dead = [n for n, p in model.named_parameters() if p.grad is None and "convs.2.norm_edge" not in n]
    assert not dead


@pytest.mark.parametrize("conv", [name for name in CONVOLUTIONS if "gated" not in name])
def test_a_batch_gives_what_its_parts_give(conv):
    data, model = make_data(), make_model(conv)
    parts = [model(part.x, part.edge_index, part.edge_type) for part in data.to_data_list()]
    torch.testing.assert_close(run(model, data), torch.cat(parts), **tolerance(torch.double))


def test_it_is_the_stack_it_says_it_is():
    data = make_data()
    model = make_model("mrs-gcn", residual=True, jk="cat", readout="mean")
    h, states = model.encoder(data.x.view(-1)), []
    for conv in model.convs:
        h = h + conv(h, data.edge_index, data.edge_type).relu()
        states.append(h)
    means = torch.stack([torch.cat(states, 1)[data.batch == g].mean(0) for g in range(3)])
    torch.testing.assert_close(run(model, data), model.head(means), **tolerance(torch.double))


def test_positional_features_take_the_last_channels():
    data, model = make_data(), make_model("mrs-gcn", pe_channels=3)
    assert model.encoder.weight.shape == (28, 5)
    pe = torch.randn(data.num_nodes, 3)
    assert not torch.allclose(run(model, data, pe=pe), run(model, data, pe=-pe))
    for wrong in (None, pe[:, :2]):
        with pytest.raises(ValueError, match=r"`pe` must have 3 channels"):
            run(model, data, pe=wrong)


def test_features_instead_of_types_and_a_convolution_of_your_own():
    data = make_data()
    model = MRSGNN(lambda width: MRSGCNConv(width, width, 3, share_init=True), 8, 2, 2)
    assert model(torch.randn(data.num_nodes, 7), data.edge_index, data.edge_type).shape == (data.num_nodes, 2)


@pytest.mark.parametrize("conv", ["mrs-gcn", "gcn"])
def test_a_prepared_graph(conv):
    data, model = make_data(), make_model(conv)
    adj = RelationalAdj(data.edge_index, data.edge_type, num_relations=3, num_nodes=data.num_nodes)
    torch.testing.assert_close(model(data.x, adj, batch=data.batch), run(model, data), **tolerance(torch.double))


def test_reset_draws_new_weights():
    model = make_model("mrs-gated-gcn", norm="batch")
    before = [p.clone() for p in model.parameters() if p.dim() > 1]
    model.reset_parameters()
    assert all(
        not torch.equal(a, b) for a, b in zip(before, (p for p in model.parameters() if p.dim() > 1), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv": "mrs-gnc"}, r"`conv` must be a function of the width or one of \['gat', .* got 'mrs-gnc'"),
        ({"jk": "lstm"}, '`jk` must be None, "cat" or "max", got \'lstm\''),
        ({"num_layers": 0}, "`num_layers` must be at least 1, got 0"),
        ({"pe_channels": 8}, r"`pe_channels` must be in \[0, 8\), the width, got 8"),
    ],
)
def test_bad_options(change, message):
    options = {"conv": "gcn", "hidden_channels": 8, "out_channels": 1, "num_layers": 1, **change}
    with pytest.raises(ValueError, match=message):
        MRSGNN(**options)


def test_bad_input():
    data = make_data()
    with pytest.raises(ValueError, match=r"`x` must hold one integer type in each row, got torch\.float32"):
        make_model("gcn")(data.x.float(), data.edge_index)
    with pytest.raises(ValueError, match="`edge_attr` must hold one integer type in each row, got None"):
        make_model("gated-gcn")(data.x, data.edge_index)
    with pytest.raises(ValueError, match="`edge_weight` must be None with a convolution that has no relations"):
        make_model(lambda c: SAGEConv(c, c))(data.x, data.edge_index, edge_weight=torch.ones(data.num_edges))


def test_several_columns_of_types_are_added():
    data = make_data()
    types = torch.stack([data.x.view(-1), data.x.view(-1) % 5], dim=1)
    model = make_model("mrs-gated-gcn", num_node_types=[28, 5], num_edge_types=[4, 2])
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
    ours, theirs = CONVOLUTIONS[conv](8, 3, None), PYG[conv](8)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
