"""Coefficients of layers by hand, and against what the layers compute."""

import pytest
import torch
from torch_geometric.nn import MLP

from graphprism.analysis.certificate.in_degrees import coefficient_in_degrees
from graphprism.nn import DirConv, MRSConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.ops import RelationalAdj

# node 2 hears 0 and 1 in relation 0 and 0 again in relation 1, node 1 hears 0 in relation 1; no edge enters node 0
EDGES = torch.tensor([[0, 1, 0, 0], [2, 2, 2, 1]])
TYPES = torch.tensor([0, 0, 1, 1])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)


def adj(weight=None, types=TYPES):
    return RelationalAdj(EDGES, types, weight, num_relations=2, num_nodes=3)


class Sender(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(1, 4, bias=False)

    def forward(self, x_i, x_j):
        return self.lin(x_j)


@pytest.mark.parametrize(
    ("layer", "weight", "expected"),
    [
        (MRSGCNConv(1, 4, num_relations=2), None, [0, 3**-0.5, 0, 0]),  # only node 1 sends and is entered
        (MRSGCNConv(1, 4, num_relations=2, edge_norm="dir"), None, [1 / 3, 3**-0.5, 1 / 3, 3**-0.5]),
        (MRSGCNConv(1, 4, num_relations=2), WEIGHT, [1, 2, 3, 4]),
        (MRSGCNConv(1, 4, num_relations=2, normalize=True), WEIGHT, [0, 2 / 24**0.5, 0, 0]),
        (MRSGCNConv(1, 4, num_relations=2, normalize=False), None, None),
        (MRSSAGEConv(1, 4, num_relations=2), None, [1 / 3, 1 / 3, 1 / 3, 1]),
        (MRSSAGEConv(1, 4, num_relations=2), WEIGHT, [1, 2, 3, 4]),
        (MRSSAGEConv(1, 4, num_relations=2, aggr="sum"), None, None),
        (MRSGATConv(1, 4, num_relations=2), WEIGHT, [1 / 6, 2 / 6, 3 / 6, 1]),
        (MRSGatedGCNConv(1, 4, num_relations=2), WEIGHT, [1 / 6, 2 / 6, 3 / 6, 1]),
        (MRSConv(Sender, num_relations=2), WEIGHT, [1, 2, 3, 4]),
        (MRSConv(Sender, num_relations=2, aggr="mean"), WEIGHT, [1 / 3, 2 / 3, 1, 4]),
    ],
)
def test_coefficients_by_hand(layer, weight, expected):
    (part,) = layer.coefficients(adj(weight)).parts
    assert part.edge_index.equal(EDGES)
    if expected is None:
        assert part.edge_weight is None
    else:
        torch.testing.assert_close(part.edge_weight, torch.tensor(expected, dtype=torch.float64))


def test_soft_attention_counts_scores():
    scores = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    (part,) = MRSGATConv(1, 4, num_relations=2).coefficients(adj(types=scores)).parts
    torch.testing.assert_close((part.edge_weight[:, None] * scores).sum(1)[:3], torch.tensor([1, 1, 2]).double() / 4)


def test_dir_conv_has_both_directions():
    layer = DirConv(lambda: MRSSAGEConv(1, 4, num_relations=2, root_weight=False), root_weight=(1, 4))
    found = layer.coefficients(adj())
    assert found.layer == "DirConv of MRSSAGEConv"
    assert found.root
    _, back = found.parts
    assert back.edge_index.equal(EDGES.flip(0))
    torch.testing.assert_close(back.edge_weight, torch.tensor([1 / 3, 1, 1 / 3, 1 / 3], dtype=torch.float64))
    assert coefficient_in_degrees(found).shape == (3, 5)


def test_dir_conv_normalises_by_both_degrees():
    found = DirConv(lambda: MRSGCNConv(1, 4, num_relations=2)).coefficients(adj())
    assert found.norm == "dir"
    assert not found.silenced().any()
    for part in found.parts:
        torch.testing.assert_close(
            part.edge_weight, torch.tensor([1 / 3, 3**-0.5, 1 / 3, 3**-0.5], dtype=torch.float64)
        )


def test_gcn_norms_are_the_same_on_undirected_graphs():
    both = RelationalAdj(
        torch.cat([EDGES, EDGES.flip(0)], dim=1), torch.cat([TYPES, TYPES]), num_relations=2, num_nodes=3
    )
    sym, dir = (
        MRSGCNConv(1, 4, num_relations=2, edge_norm=norm).coefficients(both).parts[0].edge_weight
        for norm in ("sym", "dir")
    )
    torch.testing.assert_close(sym, dir)


LINEAR = {
    "gcn": MRSGCNConv(1, 4, num_relations=2, start="independent", bias=False),
    "gcn, dir": MRSGCNConv(1, 4, num_relations=2, start="independent", bias=False, edge_norm="dir"),
    "sage": MRSSAGEConv(1, 4, num_relations=2, start="independent", bias=False),
    "gin": MRSGINConv(lambda: torch.nn.Linear(1, 4, bias=False), num_relations=2, start="independent", eps=0.5),
    "gin, shared": MRSGINConv(lambda: torch.nn.Linear(1, 4, bias=False), num_relations=2, eps=0.5, decay=1),
    "general": MRSConv(Sender, num_relations=2, start="independent", aggr="mean"),
    "dir of gcn": DirConv(lambda: MRSGCNConv(1, 4, num_relations=2, start="independent", bias=False)),
    "dir of sage": DirConv(
        lambda: MRSSAGEConv(1, 4, num_relations=2, start="independent", bias=False, root_weight=False),
        root_weight=(1, 4),
    ),
}


def matrices(name, layer):
    """The weights (K, 4), in the order of the columns."""
    if name.startswith("dir"):
        ahead, back = (0.5 * conv.lin.weight.flatten(0, 1) for conv in (layer.conv_in, layer.conv_out))
        return torch.cat([ahead, back, *([layer.lin_root.weight.T] if layer.lin_root is not None else [])])
    if name == "gin":
        return torch.cat([network.weight.T for network in layer.nns.each])
    if name == "gin, shared":
        torch.nn.init.normal_(layer.deviation)
        return layer.together(layer.nn.weight.T, layer.deviation).flatten(0, 1)
    if name == "general":
        return torch.cat([message.lin.weight.T for message in layer.messages.each])
    root = getattr(layer, "lin_root", None)
    return torch.cat([layer.lin.weight.flatten(0, 1), *([] if root is None else [root.weight.T])])


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("name", LINEAR)
def test_rows_of_ones_become_in_degrees_times_weights(name, weight, soft):
    layer = LINEAR[name].double()
    types = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 2.0], [0.3, 0.0]], dtype=torch.float64) if soft else TYPES
    graph = adj(weight, types)
    weights = matrices(name, layer)
    out = layer(torch.ones(3, 1, dtype=torch.float64), graph)
    torch.testing.assert_close(out, coefficient_in_degrees(layer.coefficients(graph)) @ weights)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (MRSSAGEConv(1, 4, num_relations=2, project=True), "ReLU"),
        (MRSConv(Sender, num_relations=2, aggr="max"), "MaxAggregation is no sum"),
        (MRSConv(Sender, num_relations=2, aggr="softmax"), "SoftmaxAggregation is no sum"),
        (DirConv(lambda: MRSConv(Sender, num_relations=2, aggr="max")), "MaxAggregation is no sum"),
    ],
)
def test_layers_without_fixed_weights_say_so(layer, words):
    assert words in layer.coefficients(adj()).unproven


def test_another_number_of_relations_is_refused():
    layers = [
        MRSGCNConv(1, 4, num_relations=3),
        MRSSAGEConv(1, 4, num_relations=3),
        MRSGINConv(lambda: MLP([1, 4]), num_relations=3),
        MRSGATConv(1, 4, num_relations=3),
        MRSGatedGCNConv(1, 4, num_relations=3),
        MRSConv(Sender, num_relations=3),
        DirConv(lambda: MRSGCNConv(1, 4, num_relations=3)),
    ]
    for layer in layers:
        with pytest.raises(ValueError, match="`adj` must have 3 relations, got 2"):
            layer.coefficients(adj())


def test_gcn_conv_refuses_an_unknown_norm():
    with pytest.raises(ValueError, match=r"`edge_norm` must be one of .* got 'symmetric'"):
        MRSGCNConv(1, 4, num_relations=2, edge_norm="symmetric")


def test_gcn_conv_with_the_directed_norm_hears_nodes_that_no_edge_enters():
    x = torch.tensor([[1.0], [0.0], [0.0]])
    silent, heard = (MRSGCNConv(1, 4, num_relations=2, edge_norm=norm)(x, EDGES, TYPES) for norm in ("sym", "dir"))
    assert silent.count_nonzero() == 0
    assert heard[1:].count_nonzero() == 8


def test_gcn_conv_with_the_directed_norm_takes_a_bipartite_graph():
    x = torch.randn(3, 8), torch.randn(2, 8)
    out = MRSGCNConv(8, 4, num_relations=2, edge_norm="dir")(x, torch.tensor([[0, 1, 2], [0, 0, 1]]), TYPES[:3])
    assert out.shape == (2, 4)
