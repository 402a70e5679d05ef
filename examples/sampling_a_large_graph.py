"""Sampling a large graph: relations are found once, on the whole graph, and travel with every sampled batch.

A sampled neighbourhood has other degrees than the graph. So the split comes before the sampling: 2,000,000 edges of
200,000 nodes are split in one pass, batches carry the relations of their edges, and the prediction at the end is exact,
layer by layer, without sampling.
"""

# %%
# A graph of five communities. A node has few labelled neighbours and features that are mostly noise.
import time

import torch
from torch_geometric.data import Data

import graphprism as gp

torch.manual_seed(0)
NODES, EDGES, CLASSES = 200_000, 2_000_000, 5
y = torch.randint(CLASSES, (NODES,))
members = y.argsort()
starts = torch.bincount(y, minlength=CLASSES).cumsum(0).roll(1).index_fill(0, torch.tensor([0]), 0)
source = torch.randint(NODES, (EDGES,))
inside = members[starts[y[source]] + (torch.rand(EDGES) * torch.bincount(y)[y[source]]).long()]
target = torch.where(torch.rand(EDGES) < 0.6, inside, torch.randint(NODES, (EDGES,)))
x = torch.randn(NODES, 16) + 0.5 * torch.nn.functional.one_hot(y, 16)
data = Data(x=x, edge_index=torch.stack([source, target]), y=y, train_mask=torch.rand(NODES) < 0.05)

# %%
# Split once. `check_split` would raise for a batch whose types no longer belong to its edges.
start = time.perf_counter()
data = gp.SplitEdges("degree")(data)
print(f"split of {data.num_edges:,} edges: {time.perf_counter() - start:.2f} s")
loader = gp.loader.NeighborLoader(data, [5, 5], data.train_mask, batch_size=512, shuffle=True, seed=0)
batch = next(iter(loader))
gp.check_split(batch)

# %%
# Train. Each layer computes what the seeds of the batch need and no more.
model = gp.nn.GNN("mrs-sage", 32, CLASSES, num_layers=2, in_channels=16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
print(f"\n{'epoch':>5}{'seconds':>9}{'nodes of a batch':>18}{'of the graph':>14}{'loss':>8}{'test accuracy':>15}")
for epoch in range(1, 4):
    start, sizes, losses = time.perf_counter(), [], []
    model.train()
    for batch in loader:
        optimizer.zero_grad()
        out = model(
            batch.x,
            batch.edge_index,
            batch.edge_type,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )
        loss = torch.nn.functional.cross_entropy(out[: batch.batch_size], batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        sizes.append(batch.num_nodes)
        losses.append(loss.item())
    seconds = time.perf_counter() - start
    # All nodes with all of their neighbours, in parts: nothing is sampled here.
    correct = gp.loader.layerwise(model.eval(), data).argmax(dim=1) == y
    size, score = sum(sizes) / len(sizes), correct[~data.train_mask].float().mean()
    row = f"{epoch:5}{seconds:9.1f}{size:18,.0f}{size / NODES:14.0%}"
    print(f"{row}{sum(losses) / len(losses):8.3f}{score:15.1%}")
