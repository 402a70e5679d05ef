"""The published formulation: our implementation of the authors' forward pass.

A network for graphs computes ordering, norm and split once per forward pass, and its layers share the result. In a
network for a directed graph every convolution does so in its first forward pass and caches the result. A layer
multiplies by the matrices of all relations at once, gathers the messages of each relation, concatenates and scatters.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree, scatter

from graphprism.nn import GNN, MRSGCNConv
from graphprism.ops import RelationalAdj


class Parts(NamedTuple):
    """Edges (2, E_r) and coefficients (E_r,) of each of the three relations."""

    edges: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]


def split(edge_index: Tensor, weight: Tensor, order: Tensor) -> Parts:
    """Up, down and tie by an order of the nodes: a mask for each."""
    source, target = order[edge_index[0]], order[edge_index[1]]
    masks = (source < target, source > target, source == target)
    return Parts(tuple(edge_index[:, mask] for mask in masks), tuple(weight[mask] for mask in masks))


class PublishedConv(torch.nn.Module):
    """One layer over edges that are split and normalised."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, 3 * out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(self, x: Tensor, parts: Parts) -> Tensor:
        products = self.lin(x).chunk(3, dim=1)
        messages = torch.cat([rows[edges[0]] for rows, edges in zip(products, parts.edges, strict=True)])
        messages = messages * torch.cat(parts.weights).unsqueeze(-1)
        out = scatter(messages, torch.cat(parts.edges, dim=1)[1], dim=0, dim_size=x.size(0), reduce="sum")
        return out if self.bias is None else out + self.bias

    @torch.no_grad()
    def copy(self, conv: MRSGCNConv, relations: tuple[int, ...] = (0, 1, 2)) -> None:
        """Takes the weights of our layer, its relations in this order."""
        self.lin.weight.copy_(conv.lin.weight[list(relations)].transpose(1, 2).reshape(self.lin.weight.shape))
        if self.bias is not None:
            self.bias.copy_(conv.bias)


class PublishedGCN(torch.nn.Module):
    """MRS-GCN for graphs, by degree: embedding, layers with ReLU, sum over nodes, a linear map."""

    def __init__(self, width: int, layers: int, num_types: int) -> None:
        super().__init__()
        self.encoder = torch.nn.Embedding(num_types, width)
        self.convs = torch.nn.ModuleList(PublishedConv(width, width) for _ in range(layers))
        self.head = torch.nn.Linear(width, 1)

    def forward(self, data: Batch) -> Tensor:
        with torch.no_grad():
            order = degree(data.edge_index[0], data.num_nodes, dtype=torch.long)
            dtype = self.head.weight.dtype
            norm = gcn_norm(data.edge_index, None, data.num_nodes, add_self_loops=False, dtype=dtype)
            parts = split(*norm, order)
        h = self.encoder(data.x.view(-1))
        for conv in self.convs:
            h = conv(h, parts).relu()
        return self.head(global_add_pool(h, data.batch))


class PublishedDirGNN(torch.nn.Module):
    """MRS-Dir-GCN with the sizes and weights of ours: both directions, rows of length one, the maximum over layers.

    Args:
        ours: Our network.
        share: Whether all layers share one copy of the split edges; the authors' code caches one per convolution.
    """

    def __init__(self, ours: GNN, share: bool = False) -> None:
        super().__init__()
        self.alpha, self.share = ours.convs[0].alpha, share
        self.along, self.against, self.head = torch.nn.ModuleList(), torch.nn.ModuleList(), ours.head
        self.cache: dict[int, tuple[Parts, Parts]] = {}
        for layer in ours.convs:
            sizes = layer.conv_in.in_channels, layer.conv_in.out_channels
            along, against = PublishedConv(*sizes), PublishedConv(*sizes)
            along.copy(layer.conv_in)
            # the authors compare a reversed edge again, so that up becomes down; ours keeps its relation
            against.copy(layer.conv_out, (1, 0, 2))
            self.along.append(along)
            self.against.append(against)

    def forward(self, x: Tensor, adj: RelationalAdj, generator: torch.Generator | None = None) -> Tensor:
        h, states = x, []
        for number, (along, against) in enumerate(zip(self.along, self.against, strict=True)):
            place = 0 if self.share else number
            if place not in self.cache:
                self.cache[place] = _both_directions(adj, x.dtype)
            parts, reversed_parts = self.cache[place]
            h = (1 - self.alpha) * along(h, parts) + self.alpha * against(h, reversed_parts)
            h = torch.nn.functional.normalize(h.relu(), dim=1)
            states.append(h)
        return self.head(torch.stack(states, dim=-1).max(dim=-1)[0])


@torch.no_grad()
def _both_directions(adj: RelationalAdj, dtype: torch.dtype) -> tuple[Parts, Parts]:
    """The split edges and their reverses, by the out-degree of the graph as it is."""
    (source, target), num_nodes = adj.edge_index, adj.size[0]
    order = degree(source, num_nodes, dtype=torch.long)
    weight = (order.to(dtype)[source] * degree(target, num_nodes, dtype)[target]).rsqrt()
    return split(adj.edge_index, weight, order), split(adj.edge_index.flip(0), weight, order)
