"""Link prediction: hold out links first, split second, or the relations tell of links that are to be predicted.

A degree counts edges. Computed on the whole graph, it knows of links that the model must not see. `T.RandomLinkSplit`
comes first, `SplitEdges` is applied to what is left. The table has GCN and MRS-GCN at equal width, three seeds each.
"""

# %%
# A town: 400 people know those who live near. Features are noisy places, so that links must be inferred.
import torch
from torch_geometric import transforms as T
from torch_geometric.data import Data

import graphprism as gp

torch.manual_seed(0)
places = torch.rand(400, 2)
near = (torch.cdist(places, places) < 0.09).fill_diagonal_(False)
data = Data(x=torch.cat([places + 0.3 * torch.randn(400, 2), torch.randn(400, 6)], 1), edge_index=near.nonzero().t())

# %%
# 20 % of the links are the test, with as many pairs without a link. The graph of training has neither of them.
hold_out = T.RandomLinkSplit(num_val=0.0, num_test=0.2, is_undirected=True)
train_data, _, test_data = hold_out(data)
train_data, test_data = gp.SplitEdges("degree")(train_data), gp.SplitEdges("degree")(test_data)
assert train_data.num_edges == test_data.num_edges < data.num_edges  # both pass messages along training links alone


def auroc(scores, labels):
    """The share of pairs (a link, no link) that are in the right order."""
    return (scores[labels == 1][:, None] > scores[labels == 0]).float().mean().item()


# %%
# A network encodes the nodes; a pair is scored by the product of its two ends. New pairs without links in every step
# would be better; those of `RandomLinkSplit` keep this short.
def score(conv, layers, seed):
    torch.manual_seed(seed)
    model = gp.nn.GNN(conv, 32, 16, layers, in_channels=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)

    def pairs(graph):
        types = graph.edge_type if conv.startswith("mrs") else None
        a, b = model(graph.x, graph.edge_index, types)[graph.edge_label_index]
        return (a * b).sum(dim=1)

    for _ in range(120):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(pairs(train_data), train_data.edge_label).backward()
        optimizer.step()
    model.eval()
    return auroc(pairs(test_data).detach(), test_data.edge_label)


# %%
print(f"{'model':10}{'layers':>7}{'AUROC of held-out links':>26}")
for layers in (2, 6):
    for conv in ("gcn", "mrs-gcn"):
        scores = 100 * torch.tensor([score(conv, layers, seed) for seed in range(3)])
        print(f"{conv:10}{layers:7}{scores.mean():19.1f} ± {scores.std():4.1f}")
