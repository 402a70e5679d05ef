"""Explain by relation: which relation does a trained network listen to, and what does it lose without it?

The target is made so that the answer is known: a node copies what it hears from nodes of larger degree, which is the
relation *down*. `gp.explain` gives each relation's share in what nodes receive, what the score loses without its edges,
and what it loses if its own weights are replaced by the mean of all relations.
"""

# %%
# A graph with hubs, and a number per node that only messages from the hubs tell.
from pathlib import Path

import torch
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.utils import barabasi_albert_graph, scatter

import graphprism as gp
from graphprism.plotting import COLOURS, new_figure, save_figure

seed_everything(0)
edges = barabasi_albert_graph(500, 3)
data = gp.SplitEdges("degree")(Data(x=torch.randn(500, 4), edge_index=edges, num_nodes=500))
down = data.edge_type == 1
y = scatter(data.x[edges[0][down], 0], edges[1][down], dim_size=500, reduce="sum")

# %%
# Train a network that reads all relations; nothing tells it which one matters.
model = gp.nn.GNN("mrs-sage", 32, 1, num_layers=1, in_channels=4, start="independent")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(300):
    optimizer.zero_grad()
    loss = (model(data.x, data.edge_index, data.edge_type).squeeze(1) - y).square().mean()
    loss.backward()
    optimizer.step()


# %%
# Explain it by its score: the share of the variance of the target that is explained, 1 at best.
def explained(out):
    return 1 - ((out.squeeze(1) - y).square().mean() / y.var()).item()


found = gp.explain(model, data, score=explained)
print(found)

# %%
# The picture: shares beside losses. A relation may have many edges and be worth little.
figure = new_figure(8.5, 3.2)
for axes, values, title in zip(
    figure.subplots(1, 3),
    (found.shares[0], found.removed, found.merged),
    ("share of what nodes receive", "loss of score without it", "loss without its own weights"),
    strict=True,
):
    bars = axes.bar(found.names, values, color=COLOURS[: len(values)])
    axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=9)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.15)
path = Path("outputs/gallery/explain_by_relation.svg")
save_figure(figure, path)
print(path)
