"""All layers of the package under one signature, and inputs for them."""

import torch
from torch_geometric.nn import MLP

from graphprism.nn import DirConv, MRSConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
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


LAYERS = {
    "gcn": lambda r=RELATIONS: MRSGCNConv(IN, OUT, r),
    "sage": lambda r=RELATIONS: MRSSAGEConv(IN, OUT, r),
    "sage-project": lambda r=RELATIONS: MRSSAGEConv(IN, OUT, r, project=True, normalize=True),
    "gat": lambda r=RELATIONS: MRSGATConv(IN, OUT, r, heads=2),
    "gat-mean": lambda r=RELATIONS: MRSGATConv(IN, OUT, r, heads=2, concat=False),
    "gin": lambda r=RELATIONS: MRSGINConv(mlp, r, eps=0.1, train_eps=True),
    "gated-gcn": lambda r=RELATIONS: MRSGatedGCNConv(IN, OUT, r, batch_norm=False),
    "gated-gcn-9": lambda r=RELATIONS: MRSGatedGCNConv(IN, OUT, r, gate_per_relation=True, batch_norm=False),
    "dir-gcn": lambda r=RELATIONS: DirConv(lambda: MRSGCNConv(IN, OUT, r), alpha=0.3),
    "dir-sage": lambda r=RELATIONS: DirConv(lambda: MRSSAGEConv(IN, OUT, r, root_weight=False), root_weight=(IN, OUT)),
    "general": lambda r=RELATIONS: MRSConv(Difference, r, aggr="mean"),
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
