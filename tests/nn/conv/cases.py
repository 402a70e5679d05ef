"""All layers of the package under one signature, and inputs for them."""

import torch
from torch_geometric.nn import MLP

from graphprism.nn import (
    DirConv,
    MRSConv,
    MRSGATConv,
    MRSGatedGCNConv,
    MRSGCNConv,
    MRSGCNEConv,
    MRSGINConv,
    MRSGINEConv,
    MRSSAGEConv,
)
from graphprism.testing import Example, graph_zoo, random_graph

IN, OUT, RELATIONS = 5, 4, 3


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(IN, OUT)

    def forward(self, x_i, x_j):
        return self.lin(x_j - x_i).tanh()


def mlp():
    # a smooth activation: at a kink of ReLU differences are not derivatives
    return MLP([IN, 6, OUT], norm=None, act="tanh")


def layers(**options):
    """Every layer, as a function of the number of relations."""
    return {
        "gcn": lambda r: MRSGCNConv(IN, OUT, num_relations=r, **options),
        "sage": lambda r: MRSSAGEConv(IN, OUT, num_relations=r, **options),
        "sage-project": lambda r: MRSSAGEConv(IN, OUT, num_relations=r, project=True, normalize=True, **options),
        "gat": lambda r: MRSGATConv(IN, OUT, num_relations=r, heads=2, **options),
        "gat-mean": lambda r: MRSGATConv(IN, OUT, num_relations=r, heads=2, concat=False, **options),
        "gin": lambda r: MRSGINConv(mlp, num_relations=r, eps=0.1, train_eps=True, **options),
        "gated-gcn": lambda r: MRSGatedGCNConv(IN, OUT, num_relations=r, batch_norm=False, **options),
        "gated-gcn-9": lambda r: MRSGatedGCNConv(
            IN, OUT, num_relations=r, gate_per_relation=True, batch_norm=False, **options
        ),
        "gcne": lambda r: MRSGCNEConv(IN, OUT, num_relations=r, **options),
        "gine": lambda r: MRSGINEConv(IN, OUT, num_relations=r, eps=0.1, train_eps=True, **options),
        "dir-gcn": lambda r: DirConv(lambda: MRSGCNConv(IN, OUT, num_relations=r, **options), alpha=0.3),
        "dir-sage": lambda r: DirConv(
            lambda: MRSSAGEConv(IN, OUT, num_relations=r, root_weight=False, **options), root_weight=(IN, OUT)
        ),
        "general": lambda r: MRSConv(Difference, num_relations=r, aggr="mean", **options),
    }


def parted(make):
    """A layer with a shared start whose relations have left it."""

    def make_parted(r):
        layer = make(r)
        for name, parameter in layer.named_parameters():
            if "deviation" in name:
                torch.nn.init.normal_(parameter)
        return layer

    return make_parted


SHARED = layers(start="shared", decay=3.0)
DIAGONAL = layers(start="shared", decay=3.0, deviation="diagonal")
LAYERS = {
    **layers(start="independent"),
    **{
        f"{name}-shared": parted(SHARED[name])
        for name in ("gcn", "gat", "gin", "gated-gcn-9", "gcne", "gine", "general")
    },
    **{f"{name}-diagonal": parted(DIAGONAL[name]) for name in ("gcn", "gin", "general")},
}


def make_layer(name, relations=RELATIONS, dtype=torch.double, seed=0):
    torch.manual_seed(seed)
    return LAYERS[name](relations).to(dtype)


def make_example(graph, relations=RELATIONS, weighted=False, soft=False, dtype=torch.double, seed=0):
    generator = torch.Generator().manual_seed(seed)
    num_edges = graph.edge_index.size(1)
    types = torch.randint(relations, (num_edges,), generator=generator)
    if soft:
        types = torch.rand(num_edges, relations, generator=generator, dtype=dtype)
    weight = torch.rand(num_edges, generator=generator, dtype=dtype) + 0.5 if weighted else None
    return Example(torch.randn(graph.num_nodes, IN, generator=generator, dtype=dtype), graph.edge_index, types, weight)


GRAPHS = {**graph_zoo(), "random": random_graph(12, 40)}
