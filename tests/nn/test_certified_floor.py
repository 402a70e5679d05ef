"""The certificate is about the layer that runs: its output has at least the rank that `certify` says, on every graph.

Graphs are directed, with loops, multi-edges and nodes that no edge enters; relations are hard or soft, edges have no
weights, positive ones with zeros among them, or signed ones. Weights are independent and random.
"""

from functools import cache

import pytest
import torch
from torch_geometric.data import Batch, Data

from graphprism.analysis import certify, direction_groups
from graphprism.analysis.certificate.certify import graph_ranks, layer_in_degrees, one_batch
from graphprism.nn import DirConv, MRSConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.ops import RelationalAdj

IN, OUT, GRAPHS = 5, 12, 50  # more channels than matrices with a weight of their own; graphs in a batch


class Sender(torch.nn.Module):
    """A message that reads the row of the sender alone."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(IN, OUT)

    def forward(self, x_i, x_j):
        return self.lin(x_j)


def linear():
    return torch.nn.Linear(IN, OUT)


def tanh_network():
    return torch.nn.Sequential(torch.nn.Linear(IN, 8), torch.nn.Tanh(), torch.nn.Linear(8, OUT))


def apart(relations):
    return {"num_relations": relations, "start": "independent"}


def parted(layer):
    """A layer whose relations have left their shared start."""
    for name, parameter in layer.named_parameters():
        if "deviation" in name:  # small: tanh of large numbers is 1 to the last bit, and rows of ones are parallel
            torch.nn.init.normal_(parameter, std=0.3)
    return layer


DIAGONAL = {"decay": 1, "deviation": "diagonal"}
LAYERS = {
    "gcn": lambda r: MRSGCNConv(IN, OUT, **apart(r)),
    "gcn, dir": lambda r: MRSGCNConv(IN, OUT, **apart(r), edge_norm="dir"),
    "gcn, normalises weights": lambda r: MRSGCNConv(IN, OUT, **apart(r), normalize=True),
    "sage": lambda r: MRSSAGEConv(IN, OUT, **apart(r)),
    "sage, sum without root": lambda r: MRSSAGEConv(IN, OUT, **apart(r), aggr="sum", root_weight=False),
    "gin, linear": lambda r: MRSGINConv(linear, **apart(r), eps=0.3),
    "gin, tanh": lambda r: MRSGINConv(tanh_network, **apart(r)),
    "gat": lambda r: MRSGATConv(IN, OUT, **apart(r)),
    "gcn, with loops": lambda r: MRSGCNConv(IN, OUT, add_self_loops=True, **apart(r)),
    "gat, with loops": lambda r: MRSGATConv(IN, OUT, add_self_loops=True, **apart(r)),
    "gat, heads": lambda r: MRSGATConv(IN, OUT // 3, **apart(r), heads=3),
    "gated": lambda r: MRSGatedGCNConv(IN, OUT, **apart(r), batch_norm=False),
    "gated, per relation": lambda r: MRSGatedGCNConv(IN, OUT, **apart(r), batch_norm=False, gate_per_relation=True),
    "general, sum": lambda r: MRSConv(Sender, **apart(r)),
    "general, mean": lambda r: MRSConv(Sender, **apart(r), aggr="mean"),
    "dir of gcn": lambda r: DirConv(lambda: MRSGCNConv(IN, OUT, **apart(r))),
    "dir of sage": lambda r: DirConv(
        lambda: MRSSAGEConv(IN, OUT, **apart(r), root_weight=False), root_weight=(IN, OUT)
    ),
    "dir of gat": lambda r: DirConv(lambda: MRSGATConv(IN, OUT, **apart(r))),
    "gcn, left its shared start": lambda r: parted(MRSGCNConv(IN, OUT, num_relations=r, decay=1)),
    "gin, left its shared start": lambda r: parted(MRSGINConv(tanh_network, num_relations=r, eps=0.3, decay=1)),
    "gcn, diagonal": lambda r: parted(MRSGCNConv(IN, OUT, num_relations=r, **DIAGONAL)),
    "sage, diagonal": lambda r: parted(MRSSAGEConv(IN, OUT, num_relations=r, **DIAGONAL)),
    "gat, diagonal": lambda r: parted(MRSGATConv(IN, OUT, num_relations=r, **DIAGONAL)),
    "gated, diagonal": lambda r: parted(MRSGatedGCNConv(IN, OUT, num_relations=r, batch_norm=False, **DIAGONAL)),
    "gin, diagonal": lambda r: parted(MRSGINConv(tanh_network, num_relations=r, eps=0.3, **DIAGONAL)),
    "general, diagonal": lambda r: parted(MRSConv(Sender, num_relations=r, **DIAGONAL)),
    "dir of gcn, diagonal": lambda r: DirConv(lambda: parted(MRSGCNConv(IN, OUT, num_relations=r, **DIAGONAL))),
    "dir of gated": lambda r: DirConv(lambda: MRSGatedGCNConv(IN, OUT, **apart(r), batch_norm=False)),
}
WEIGHTS = ("none", "positive", "whole", "signed")


@cache
def draw_batch(seed):
    """Graphs that share a number of relations, and whether these are soft and edges have weights."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*size):
        return torch.rand(*size, generator=generator, dtype=torch.float64)

    def randint(high, *size):
        return torch.randint(high, size, generator=generator)

    relations, soft, weights = 1 + seed % 4, seed // 4 % 2 == 1, WEIGHTS[seed // 8 % 4]
    graphs = []
    for _ in range(GRAPHS):
        num_nodes, num_edges = int(randint(7, 1)) + 2, int(randint(20, 1))
        edge_index = randint(num_nodes, 2, num_edges)
        again = randint(max(num_edges, 1), num_edges // 4)
        edge_index = torch.cat([edge_index, edge_index[:, again]], dim=1)
        num_edges = edge_index.size(1)
        edge_type = randint(relations, num_edges)
        if soft:
            edge_type = rand(num_edges, relations) * (rand(num_edges, relations) < 0.7)
        weight = {
            "none": None,
            "positive": (rand(num_edges) + 0.1) * (rand(num_edges) < 0.9),
            "whole": randint(3, num_edges).double() + 1,
            "signed": 2 * rand(num_edges) - 1,
        }[weights]
        graph = Data(edge_index=edge_index, edge_type=edge_type, num_nodes=num_nodes)
        if weight is not None:
            graph.edge_weight = weight
        graphs.append(graph)
    return Batch.from_data_list(graphs), relations


def inputs(num_nodes, seed):
    """Equal rows, rank one, and full rank."""
    generator = torch.Generator().manual_seed(seed)
    full = torch.randn(num_nodes, IN, generator=generator, dtype=torch.float64)
    return torch.ones(num_nodes, 1, dtype=torch.float64) @ full[:1], full[:, :1] @ full[:1], full


def ranks_of(rows, batch):
    """Numerical rank of the rows of each graph, scaled to length one so that a short row does not count as none."""
    rows = torch.nn.functional.normalize(rows, dim=1, eps=1e-200)
    size = torch.bincount(batch, minlength=GRAPHS)
    place = torch.arange(len(batch)) - (size.cumsum(0) - size)[batch]
    padded = rows.new_zeros(GRAPHS, int(size.max()), rows.size(1))
    padded[batch, place] = rows
    return torch.linalg.matrix_rank(padded, rtol=1e-11)


def floors(layer, data):
    """The certified rank of each graph of a batch, and the direction of each node; `certify` counts both."""
    adj = adj_of(data, layer.num_relations)
    in_degrees = layer_in_degrees(layer.coefficients(adj), data.num_nodes)
    groups = direction_groups(in_degrees, data.batch)
    return graph_ranks(in_degrees, groups, one_batch(data)), groups


def has_parallel_pair(rows, groups, batch):
    """Whether each graph has two parallel rows among nodes that the certificate distinguishes."""
    rows = torch.nn.functional.normalize(rows, dim=1, eps=1e-200)
    cosine = rows @ rows.T
    sine = (rows[:, None] - cosine[:, :, None] * rows).norm(dim=2)
    distinguished = (groups[:, None] != groups) & (groups[:, None] >= 0) & (groups >= 0)
    wrong = distinguished & (batch[:, None] == batch) & (sine < 1e-9)
    return torch.bincount(batch[wrong.any(dim=1)], minlength=GRAPHS) > 0


def adj_of(data, relations):
    weight = getattr(data, "edge_weight", None)
    return RelationalAdj(
        data.edge_index, data.edge_type, weight, num_relations=relations, num_nodes=int(data.num_nodes)
    )


def random_layer(name, relations, seed):
    torch.manual_seed(seed)
    layer = LAYERS[name](relations).double()
    with torch.no_grad():
        for key, parameter in layer.named_parameters():
            if key.endswith("bias"):
                # any bias; without one the rank is smaller, as it acts like a row of the receiver
                parameter.uniform_(-0.5, 0.5) if seed % 3 == 1 else parameter.zero_()
    return layer


@torch.no_grad()
def violations(name, seeds):
    """Number of graphs that break the certificate, by rank or by a pair, and of those with something proven."""
    violated = proven = 0
    for seed in seeds:
        data, relations = draw_batch(seed)
        layer = random_layer(name, relations, seed)
        floor, groups = floors(layer, data)
        if int(floor.max()) == 0:
            continue
        proven += int((floor > 0).sum())
        found = [layer(x, adj_of(data, relations)) for x in inputs(data.num_nodes, seed)]
        below = torch.stack(
            [(ranks_of(out, data.batch) < floor) | has_parallel_pair(out, groups, data.batch) for out in found]
        )
        violated += int(below.any(dim=0).sum())
    return violated, proven


@pytest.mark.parametrize("name", LAYERS)
def test_layer_has_the_certified_rank(name):
    violated, proven = violations(name, range(3, 128, 40))
    assert violated == 0
    assert proven > 60


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layer_has_the_certified_rank_on_ten_thousand_graphs(name):
    violated, proven = violations(name, range(320))
    print(f"{name}: {320 * GRAPHS} graphs, {proven} with a floor, {violated} violated")
    assert violated == 0
    assert proven > 10_000


def test_property_finds_the_rule_that_was_wrong(monkeypatch):
    """In-degree x out-degree, for a layer that takes the in-degree of both ends."""
    partner = LAYERS["gcn, dir"]
    true_rule = MRSGCNConv.coefficients
    monkeypatch.setattr(MRSGCNConv, "coefficients", lambda layer, adj: true_rule(partner(layer.num_relations), adj))
    violated, _ = violations("gcn", range(3, 128, 19))
    assert violated > 10


def test_property_finds_that_factors_of_input_channels_do_not_distinguish_one_hot_rows(monkeypatch):
    """A row with a single entry gets parallel rows from all relations, whatever the factors."""
    data, relations = draw_batch(3)
    x = torch.zeros(data.num_nodes, IN, dtype=torch.float64)
    x[:, 2] = 1
    layer = random_layer("gcn, diagonal", relations, 3)
    layer.bias = None
    floor, _ = floors(layer, data)
    out = layer(x, adj_of(data, relations)).detach()
    assert bool((ranks_of(out, data.batch) >= floor).all())
    factors = 1 + torch.rand(relations, IN, 1, dtype=torch.float64)
    monkeypatch.setattr(layer.lin, "forward", lambda x: layer.lin.common * factors)
    out = layer(x, adj_of(data, relations)).detach()
    assert int(ranks_of(out, data.batch).max()) == 1
    assert int(floor.max()) > 1


@pytest.mark.parametrize("name", LAYERS)
def test_certify_says_the_floor_of_the_layer(name):
    data, relations = draw_batch(3)
    layer = random_layer(name, relations, 3)
    certificate = certify(data, layer=layer)
    expected = torch.bincount(floors(layer, data)[0], minlength=len(certificate.rank_counts))
    assert certificate.rank_counts == tuple(expected.tolist())
    assert type(layer).__name__ in certificate.sentence


@pytest.mark.parametrize("name", ["gat", "gated", "dir of gat"])
def test_nothing_is_proven_of_negative_weights_in_attention_and_gates(name):
    data, relations = draw_batch(24)
    certificate = certify(data, layer=random_layer(name, relations, 0))
    assert certificate.rank == 0
    assert certificate.sentence.startswith("Nothing is proven about ")
