"""Heterogeneous graph: types of nodes and edges stay yours; relations come inside each type of edge.

Authors write papers, papers cite papers, authors know each other. `to_hetero` makes a network for these types out of a
plain one; `to_mrs` gives each of its convolutions a weight per relation. Edges inside one type of nodes are split by
degree; nodes of two types are not compared, so that edges between them are ties.
"""

# %%
# The graph. The subject of a paper is that of most of its authors, and papers cite papers of the same subject.
import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero
from torch_geometric.transforms import ToUndirected

import graphprism as gp

torch.manual_seed(0)
AUTHORS, PAPERS, SUBJECTS = 200, 400, 3
field, y = torch.randint(SUBJECTS, (AUTHORS,)), torch.randint(SUBJECTS, (PAPERS,))


def draw(senders, receivers, alike, other):
    """Edges between nodes of the same and of other subjects, each with its probability."""
    chance = torch.where(senders[:, None] == receivers, alike, other)
    if senders is receivers:
        chance.fill_diagonal_(0)  # no self-loops
    return torch.bernoulli(chance).nonzero().t()


data = HeteroData()
data["author"].x = torch.randn(AUTHORS, 8) + 3 * torch.nn.functional.one_hot(field, 8)
data["paper"].x = torch.randn(PAPERS, 8)  # says nothing: what is known comes from authors
data["author", "writes", "paper"].edge_index = draw(field, y, 0.02, 0.006)
data["paper", "cites", "paper"].edge_index = draw(y, y, 0.02, 0.004)
data["author", "knows", "author"].edge_index = draw(field, field, 0.05, 0.02)
data = ToUndirected()(data)

# %%
# What the split does to each type of edges.
data = gp.SplitEdges("degree")(data)
print(f"{'type of edges':30}{'up':>6}{'down':>6}{'tie':>6}")
for kind in data.edge_types:
    counts = torch.bincount(data[kind].edge_type, minlength=3).tolist()
    print(f"{' '.join(kind):30}" + "".join(f"{count:6}" for count in counts))

# %%
# The network, plain and converted; relations are passed by type of edges, as the edges are.
train = torch.rand(PAPERS) < 0.3
types = {kind: data[kind].edge_type for kind in data.edge_types}
accuracy = {"plain": [], "converted": []}
for seed in range(3):
    torch.manual_seed(seed)
    plain = to_hetero(GraphSAGE((-1, -1), 32, num_layers=2, out_channels=SUBJECTS), data.metadata())
    with torch.no_grad():
        plain(data.x_dict, data.edge_index_dict)  # its convolutions wait for the sizes of their inputs
    mrs = gp.to_mrs(plain, "degree")
    for name, model, given in (("plain", plain, {}), ("converted", mrs, {"edge_type": types})):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
        for _ in range(40):
            optimizer.zero_grad()
            out = model(data.x_dict, data.edge_index_dict, **given)["paper"]
            torch.nn.functional.cross_entropy(out[train], y[train]).backward()
            optimizer.step()
        accuracy[name].append(100 * (out.argmax(dim=1) == y)[~train].float().mean().item())

# %%
print(f"\n{'network':12}{'parameters':>11}{'test accuracy, three seeds':>30}")
for name, model in (("plain", plain), ("converted", mrs)):
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name:12}{size:11,}" + "".join(f"{score:9.1f} %" for score in accuracy[name]))
