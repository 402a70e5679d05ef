"""Learned split: start from a fixed one, and let training move edges to other relations.

The target is made so that the right split is known: a message counts positive where the sender's second feature is
larger than the receiver's, and negative otherwise. The degree knows nothing about that. `LearnedSplit` starts as the
split by degree and is trained with the network. How near does it come to the right split?
"""

# %%
# The graph and its target.
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph, scatter

import graphprism as gp
from graphprism.plotting import COLOURS, new_figure, save_figure
from graphprism.splitting import by_order

torch.manual_seed(0)
NODES = 2000
x, edges = torch.randn(NODES, 4), erdos_renyi_graph(NODES, 6 / NODES)
difference = x[edges[0], 1] - x[edges[1], 1]
y = scatter(x[edges[0], 0] * difference.sign(), edges[1], dim_size=NODES, reduce="mean")
train = torch.rand(NODES) < 0.7
data = Data(x=x, edge_index=edges, num_nodes=NODES)


# %%
# A layer takes scores (E, R) in place of relations (E,): that is all that `LearnedSplit` needs.
class Net(torch.nn.Module):
    def __init__(self, num_relations, learned=False):
        super().__init__()
        self.split = gp.nn.LearnedSplit(4, num_relations) if learned else None
        self.conv = gp.nn.MRSSAGEConv(4, 32, num_relations=num_relations, start="independent")
        self.head = torch.nn.Linear(32, 1)

    def forward(self, types):
        scores = types if self.split is None else self.split(x, edges, types)
        return self.head(self.conv(x, edges, scores).relu()).squeeze(1)


def fit(model, types):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        (model(types)[train] - y[train]).square().mean().backward()
        optimizer.step()
    error = (model(types)[~train] - y[~train]).square().mean()
    return 1 - (error / y[~train].var()).item()


# %%
# Four networks: one relation, the split by degree, the learned one from there, and the right one.
by_degree = by_order("degree")(data)
right = by_order(lambda graph: graph.x[:, 1])(data)
learned = Net(3, learned=True)
print(f"{'split':22}variance explained on test nodes")
print(f"{'one relation':22}{fit(Net(1), torch.zeros_like(by_degree)):8.0%}")
print(f"{'by degree':22}{fit(Net(3), by_degree):8.0%}")
print(f"{'learned, from degree':22}{fit(learned, by_degree):8.0%}")
print(f"{'the right one':22}{fit(Net(3), right):8.0%}")

# %%
# What was learned: the scores of the relations, against what should decide. Their names are those of the start; after
# training they mean what training made of them.
scores = learned.split(x, edges, by_degree).detach()
bins = torch.bucketize(difference, torch.linspace(-3, 3, 25))
means = scatter(scores, bins, dim_size=26, reduce="mean")[1:25]
figure = new_figure(7, 4)
axes = figure.subplots()
for relation, name in enumerate(("up", "down", "tie")):
    axes.plot(torch.linspace(-2.875, 2.875, 24), means[:, relation], color=COLOURS[relation], linewidth=2, label=name)
axes.set(xlabel="second feature: sender minus receiver", ylabel="mean score of the relation")
axes.set_title("A learned split, started by degree: edges change relation with the feature", loc="left", fontsize=11)
axes.grid(alpha=0.25)
axes.legend(frameon=False, title="relation", loc="center left", bbox_to_anchor=(1, 0.5))
path = Path("outputs/gallery/learned_split.svg")
save_figure(figure, path)
print(path)
