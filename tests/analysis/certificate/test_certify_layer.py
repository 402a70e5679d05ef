"""The certificate of a layer: its sentence, its warnings and its errors."""

import json

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from graphprism.analysis import Certificate, certify, compare_splits, inspect_graph
from graphprism.nn import DirConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.splitting import Graph

# edges 0, 1 -> 2 of relation 0 and 0, 1 -> 3 of relation 1: no edge enters the senders
SILENT = Data(edge_index=torch.tensor([[0, 1, 0, 1], [2, 2, 3, 3]]), edge_type=torch.tensor([0, 0, 1, 1]), num_nodes=4)
PATH = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), 4)


def test_layer_that_silences_every_edge():
    layer = MRSGCNConv(8, 8, num_relations=2, start="independent")
    assert layer(torch.randn(4, 8), SILENT.edge_index, SILENT.edge_type).count_nonzero() == 0
    certificate = certify(SILENT, layer=layer)
    assert certificate.rank == 0
    assert certificate.layer.silenced_edges == 4
    assert certificate.sentence == (
        "MRSGCNConv: no two nodes are structurally independent on this graph; nothing is proven to keep the output "
        'from rank one. It says nothing about accuracy. Its norm "sym" silences 100 % of the edges (4 of 4 weigh 0).'
    )


def test_sentence_of_a_layer():
    certificate = certify(SILENT, layer=MRSGCNConv(8, 8, num_relations=2, edge_norm="dir", start="independent"))
    assert certificate.rank == 2
    assert certificate.sentence == (
        "MRSGCNConv has, for generic weights and input (almost all, not all), rank at least 2; 17 % of node pairs are "
        "distinguished (mapped to linearly independent vectors), on one relation 0 %. Proven for an injective "
        "activation, such as tanh, or none; sufficient, not necessary. It says nothing about accuracy."
    )
    assert "layer: MRSGCNConv, norm: dir" in str(certificate)
    assert "structural rank: 2 of 2 weight matrices" in str(certificate)


def test_share_of_silenced_edges():
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 1]]), edge_type=torch.tensor([0, 1, 0]), num_nodes=3)
    certificate = certify(data, layer=MRSGCNConv(8, 8, num_relations=2))
    assert 'Its norm "sym" silences 33 % of the edges (1 of 3 weigh 0).' in certificate.sentence
    given = certify(data, layer=MRSGCNConv(8, 8, num_relations=2), edge_weight=torch.tensor([0.0, 1.0, 1.0]))
    assert given.layer.silenced_edges == 0  # given weights are taken as they are, zero or not


def test_row_of_the_receiver_is_one_more_relation():
    """Nodes 0 and 1 hear nothing: with a root weight they are distinguished from those that do."""
    root = certify(SILENT, layer=MRSSAGEConv(8, 8, num_relations=2))
    assert root.rank == 3
    assert root.layer.merged_pairs == 4
    assert ", on one relation 67 %." in root.sentence
    assert certify(SILENT, layer=MRSSAGEConv(8, 8, num_relations=2, root_weight=False)).rank == 2


def test_dir_conv_hears_both_directions():
    certificate = certify(SILENT, layer=DirConv(lambda: MRSGCNConv(8, 8, num_relations=2)))
    assert certificate.rank == 3  # nodes 0 and 1 send in both relations
    assert certificate.sentence.startswith("DirConv of MRSGCNConv has")
    assert len(certificate.rank_counts) == 5


def test_relations_that_share_their_start():
    words = (
        "Its relations share their start: this holds only once training has moved them apart; before, it is the plain"
    )
    for start, said in (("shared", True), ("independent", False)):
        layer = MRSGCNConv(8, 8, num_relations=3, start=start)
        assert (words in certify(PATH, "degree", layer=layer).sentence) == said
        assert (words in certify(PATH, "degree", layer=DirConv(lambda: layer)).sentence) == said  # noqa: B023


def test_layers_whose_coefficients_depend_on_the_input():
    gat = certify(PATH, "degree", layer=MRSGATConv(8, 8, num_relations=3)).sentence
    assert "Proven for no activation or tanh;" in gat
    assert "assume equal attention" in gat
    gated = certify(PATH, "degree", layer=MRSGatedGCNConv(8, 8, num_relations=3)).sentence
    assert "assume equal gates" in gated
    assert "batch normalisation" in gated
    gin = certify(PATH, "degree", layer=MRSGINConv(lambda: torch.nn.Linear(8, 8), num_relations=3)).sentence
    assert "at least 3 channels" in gin
    assert "with ReLU its output can be zero" in gin


def test_few_channels_cap_the_rank():
    three = Data(edge_index=torch.tensor([[0, 0, 0], [1, 2, 3]]), edge_type=torch.tensor([0, 1, 2]), num_nodes=4)
    for channels, rank, pairs in ((1, 1, 0), (2, 2, 3), (3, 3, 3)):
        layer = MRSGCNConv(8, channels, num_relations=3, edge_norm="dir", start="independent").double()
        certificate = certify(three, layer=layer)
        assert (certificate.rank, certificate.independent_pairs) == (rank, pairs)
        out = layer(torch.randn(4, 8, dtype=torch.double), three.edge_index, three.edge_type)
        assert int(torch.linalg.matrix_rank(out)) == rank


def test_batch_normalisation_costs_at_most_one():
    torch.manual_seed(0)
    layer = MRSGatedGCNConv(8, 8, num_relations=2, start="independent").double()
    rank = certify(SILENT, layer=layer).rank
    out = layer(torch.ones(4, 8, dtype=torch.double), SILENT.edge_index, SILENT.edge_type)
    assert int(torch.linalg.matrix_rank(out, rtol=1e-8)) == rank - 1


def test_json_and_back():
    certificate = certify(PATH, "degree", layer=MRSGatedGCNConv(8, 8, num_relations=3))
    assert Certificate.from_json(certificate.to_json()) == certificate
    fields = json.loads(certify(PATH, "degree").to_json())
    del fields["layer"]  # as 0.1 wrote it
    assert Certificate.from_dict(fields) == certify(PATH, "degree")


def test_function_that_makes_the_layer():
    def layer(num_relations):
        return MRSGCNConv(8, 8, num_relations=num_relations)

    assert certify(PATH, "degree", layer=layer) == certify(PATH, "degree", layer=layer(3))
    comparison = compare_splits(PATH, {"degree": "degree", "one": torch.zeros(6, dtype=torch.long)}, layer=layer)
    assert [certificate.layer.name for certificate in comparison.certificates] == ["MRSGCNConv"] * 2
    assert "rank: MRSGCNConv has at least this one" in str(comparison)
    assert inspect_graph(PATH, layer=layer)["degree"] == certify(PATH, "degree", layer=layer)


def test_comparison_warns_of_silenced_edges():
    text = str(compare_splits(SILENT, ["degree"], layer=MRSGCNConv(8, 8, num_relations=3)))
    assert "silences 100 % of the edges (4 of 4 weigh 0)." in text


def test_comparison_of_a_layer_of_which_nothing_is_proven():
    text = str(compare_splits(PATH, ["degree"], layer=MRSSAGEConv(8, 8, num_relations=3, project=True)))
    assert text.endswith(
        "Nothing is proven about MRSSAGEConv on this graph: the ReLU behind `project=True` can make all messages zero."
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"layer": MRSGCNConv(8, 8, num_relations=3), "aggregation": "sum"}, ValueError, "`aggregation` must be None"),
        (
            {"layer": MRSGCNConv(8, 8, num_relations=2)},
            ValueError,
            "must have 3 relations as the split has, got one with 2",
        ),
        ({"layer": GCNConv(8, 8)}, TypeError, "`layer` must be a layer with `coefficients`.* got GCNConv"),
        ({"layer": "gcn"}, TypeError, "`layer` must be a layer with `coefficients`.* got str"),
        ({"layer": lambda relations: relations}, TypeError, "got int"),
    ],
)
def test_bad_layers(options, error, message):
    with pytest.raises(error, match=message):
        certify(PATH, "degree", **options)


@pytest.mark.parametrize("layer", [MRSGCNConv, MRSGATConv])
def test_loops_that_a_layer_adds_are_no_edges_of_the_graph(layer):
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    data = Data(edge_index=edges, edge_type=torch.tensor([0, 1, 1, 0, 2]), num_nodes=3)
    data.edge_weight = torch.tensor([1.0, 0.0, 2.0, 1.0, 1.0])
    certificate = certify(data, layer=layer(8, 8, add_self_loops=True))
    assert certificate.layer.silenced_edges == 0
    assert certificate.num_edges == 5
    assert certificate.rank >= 2


def test_silenced_edges_of_a_layer_that_replaces_self_loops():
    edges = torch.tensor([[0, 1, 0], [0, 1, 0]])
    layer = MRSGCNConv(8, 8, num_relations=1, add_self_loops=True)
    loops = Data(edge_index=edges, edge_type=torch.zeros(3).long(), num_nodes=2)
    assert certify(loops, layer=layer).layer.silenced_edges == 0
    some = Data(edge_index=torch.tensor([[2, 2], [2, 0]]), edge_type=torch.zeros(2).long(), num_nodes=4)
    found = certify(some, edge_weight=torch.tensor([-1.0, 1.0]), layer=layer)
    assert found.layer.silenced_edges == 1  # 2 -> 0, as the degree of node 2 is -1
