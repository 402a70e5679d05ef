"""Node classification: on a graph where neighbours are alike, a split does not help; see it before you believe it.

A stochastic block model: four communities, features that hardly show them, and edges mostly inside. Smoothing over
neighbours is what this task wants, and a split by degree has nothing to add. The table has two and four layers, at
equal width and at equal parameters, five seeds each.
"""

# %%
# The graph: 600 nodes, 20 labels per class for training.
import torch
from torch_geometric.data import Data
from torch_geometric.utils import stochastic_blockmodel_graph

import graphprism as gp

CLASSES, SIZE = 4, 150
torch.manual_seed(0)
edges = stochastic_blockmodel_graph([SIZE] * CLASSES, 0.003 + 0.027 * torch.eye(CLASSES))
y = torch.arange(CLASSES).repeat_interleave(SIZE)
x = torch.randn(len(y), 16)
x[:, :CLASSES] += 0.7 * torch.nn.functional.one_hot(y, CLASSES)
data = gp.SplitEdges("degree")(Data(x=x, edge_index=edges, y=y))
train = torch.arange(SIZE).repeat(CLASSES) < 20


# %%
# One loop for all networks: `GNN` takes the name of a convolution.
def accuracy(conv, layers, width, seed):
    torch.manual_seed(seed)
    model = gp.nn.GNN(conv, width, CLASSES, layers, in_channels=16, dropout=0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    types = data.edge_type if conv.startswith("mrs") else None
    for _ in range(80):
        model.train()
        optimizer.zero_grad()
        out = model(data.x, data.edge_index, types)
        torch.nn.functional.cross_entropy(out[train], y[train]).backward()
        optimizer.step()
    correct = model.eval()(data.x, data.edge_index, types).argmax(dim=1) == y
    return correct[~train].float().mean().item(), sum(p.numel() for p in model.parameters())


# %%
# 18 channels with three matrices per layer have about as many parameters as 32 with one.
print(f"{'model':34}{'layers':>7}{'parameters':>12}{'test accuracy':>18}")
for layers in (2, 4):
    for name, conv, width in (
        ("GCN", "gcn", 32),
        ("MRS-GCN, equal width", "mrs-gcn", 32),
        ("MRS-GCN, equal parameters", "mrs-gcn", 18),
    ):
        found = [accuracy(conv, layers, width, seed) for seed in range(5)]
        scores = torch.tensor([100 * score for score, _ in found])
        print(f"{name:34}{layers:7}{found[0][1]:12,}{scores.mean():10.1f} ± {scores.std():3.1f} %")
