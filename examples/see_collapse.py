"""See collapse in your own network: which layer loses the signals, and does a remedy or a split keep them?

`gp.collapse` runs any PyG model once and measures the output of every convolution. Here the model is a plain stack of
32 GCN layers, the same with residuals, and the stack with one weight per relation, all with random weights.
"""

# %%
# A network of your own. Nothing in it knows that it will be measured.
from itertools import pairwise
from pathlib import Path

import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCNConv

import graphprism as gp
from graphprism.plotting import COLOURS, new_figure, save_figure


class Deep(torch.nn.Module):
    def __init__(self, residual=False, layers=32, width=32):
        super().__init__()
        sizes = [34] + [width] * layers
        self.convs = torch.nn.ModuleList(GCNConv(a, b) for a, b in pairwise(sizes))
        self.residual = residual

    def forward(self, x, edge_index):
        for conv in self.convs:
            h = conv(x, edge_index).relu()
            x = h + x if self.residual and h.shape == x.shape else h
        return x


# %%
# One report for each network. Relations that start apart show what a split can do; those of a shared start, the
# default, begin as the plain network and move apart in training.
data = KarateClub()[0]
torch.manual_seed(0)
networks = {
    "GCN": Deep(),
    "GCN with residuals": Deep(residual=True),
    "MRS-GCN, by degree and PageRank": gp.to_mrs(Deep(), "degree, ppr", start="independent"),
}
reports = {name: gp.collapse(network, data) for name, network in networks.items()}
for name, report in reports.items():
    print(f"{name}: {report.verdict}")

# %%
# The picture: how far the nodes are from carrying one signal, layer by layer. 0 would be one signal in all channels.
figure = new_figure(7.5, 4.2)
axes = figure.subplots()
for (name, report), colour, style in zip(reports.items(), (COLOURS[3], COLOURS[4], COLOURS[0]), "-:-", strict=True):
    distances = [row.rank_one_distance for row in report.rows]
    axes.semilogy([row.layer for row in report.rows], distances, style, color=colour, linewidth=2, label=name)
axes.set(xlabel="layer", ylabel="rank-one distance", xlim=(1, 32), ylim=(None, 3))
axes.set_title("Random weights on the karate club: who still carries several signals?", loc="left", fontsize=11)
axes.grid(alpha=0.25)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower left")
path = Path("outputs/gallery/see_collapse.svg")
save_figure(figure, path)
print(path)
