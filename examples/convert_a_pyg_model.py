"""Convert a PyG model: one call gives every convolution a weight per relation, and no output changes until you train.

The model below was not written for graphprism. `to_mrs` copies it, finds its convolutions, and splits the edges of each
call by degree. The table shows what each convolution became, and that the converted model is the same function.
"""

# %%
# Any module with convolutions of PyG will do: here three kinds of them, and layers that are none.
import torch
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GATv2Conv, GCNConv, TransformerConv

import graphprism as gp


class Club(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(34, 32)
        self.second = GATv2Conv(32, 16, heads=2)
        self.third = TransformerConv(32, 32)
        self.head = torch.nn.Sequential(torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))

    def forward(self, x, edge_index):
        for conv in (self.first, self.second, self.third):
            x = conv(x, edge_index).relu()
        return self.head(x)


torch.manual_seed(0)
data = KarateClub()[0]
plain = Club()

# %%
# The conversion. The model is called as before: edges are split inside, once for each graph.
mrs = gp.to_mrs(plain, "degree")
before = (mrs(data.x, data.edge_index) - plain(data.x, data.edge_index)).abs().max().item()


# %%
# Your training loop stays as it is. Four members have a label; the others are the test.
def train(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]
        )
        loss.backward()
        optimizer.step()
    correct = model(data.x, data.edge_index).argmax(dim=1) == data.y
    return correct[~data.train_mask].float().mean().item()


accuracy = {name: train(model) for name, model in (("plain", plain), ("converted", mrs))}

# %%
# What came of it. 30 test nodes cannot say which of the two is better: a difference of one node is 3 %.
print(f"{'layer':8}{'was':18}{'parameters':>10}   {'became':20}{'parameters':>10}")
for name in ("first", "second", "third"):
    old, new = plain.get_submodule(name), mrs.model.get_submodule(name)
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in (old, new)]
    kind = type(new.conv).__name__
    kind = kind if kind.startswith("MRS") else f"{kind} x {mrs.current.num_relations}"  # a copy for each relation
    print(f"{name:8}{type(old).__name__:18}{sizes[0]:10,}   {kind:20}{sizes[1]:10,}")
print(f"largest difference of the outputs before training: {before:.1e}")
print(f"test accuracy: plain {accuracy['plain']:.0%}, converted {accuracy['converted']:.0%}")
