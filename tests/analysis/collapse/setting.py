"""A small graph, labels for it, and models with fixed weights."""

import torch
from torch_geometric.data import Data


def ring(n=10, features=4, seed=0, **attributes):
    """A ring with one chord, so that degrees differ."""
    src = torch.arange(n)
    edges = torch.cat((torch.stack((src, (src + 1) % n)), torch.tensor([[0], [n // 2]])), dim=1)
    x = torch.randn(n, features, generator=torch.Generator().manual_seed(seed))
    return Data(x=x, edge_index=torch.cat((edges, edges.flip(0)), dim=1), **attributes)


def classes(n=10, number=3):
    return torch.arange(n) % number


def build(factory, *arguments, **keywords):
    torch.manual_seed(0)
    return factory(*arguments, **keywords)
