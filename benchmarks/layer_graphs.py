"""Graphs to measure layers on: the sizes of two citation networks, with and without hubs, and molecules."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.ops import RelationalAdj
from graphprism.splitting import Graph, by_order


@dataclass(frozen=True)
class Size:
    """Both ends of an edge are drawn with probability (rank + offset) ** -skew: 0 is uniform, 0.9 has hubs."""

    name: str
    num_nodes: int
    num_edges: int
    channels: int
    skew: float = 0.0
    offset: float = 5.0


# ogbn-arxiv has 169,343 nodes and 1,166,243 edges and a node of 13,161 neighbours (skew 0.9 makes one of about 12,600,
# with offset 2 of 27,000); snap-patents has 2,923,922 nodes and 13,975,791 edges.
ARXIV, PATENTS = (169_343, 1_166_243), (2_923_922, 13_975_791)
CPU_SIZES = (Size("arxiv-64-hubs", *ARXIV, 64, 0.9), Size("arxiv-64-uniform", *ARXIV, 64))
GPU_SIZES = (
    Size("arxiv-64-hubs", *ARXIV, 64, 0.9),
    Size("arxiv-64-heavy", *ARXIV, 64, 0.9, 2.0),
    Size("arxiv-64-uniform", *ARXIV, 64),
    Size("arxiv-256-hubs", *ARXIV, 256, 0.9),
    Size("arxiv-256-uniform", *ARXIV, 256),
    Size("patents-32-hubs", *PATENTS, 32, 0.9),
    Size("patents-32-mild", *PATENTS, 32, 0.5),
)
GROWTH = tuple(Size(f"growth-{edges:.0e}", edges // 7, edges, 64, 0.9) for edges in (10**5, 10**6, 10**7))


def make_edges(size: Size, seed: int = 0) -> Tensor:
    """Edges of a random directed graph; a node that is often cited also cites often."""
    generator = torch.Generator().manual_seed(seed)
    if size.skew == 0:
        return torch.randint(size.num_nodes, (2, size.num_edges), generator=generator)
    mass = (torch.arange(size.num_nodes, dtype=torch.double) + size.offset).pow(-size.skew).cumsum(0)
    drawn = torch.rand(2, size.num_edges, dtype=torch.double, generator=generator) * mass[-1]
    rank = torch.searchsorted(mass, drawn).clamp(max=size.num_nodes - 1)
    return torch.randperm(size.num_nodes, generator=generator)[rank]


def make_adj(size: Size, device: torch.device) -> RelationalAdj:
    """The graph split by degree and normalised, with both directions sorted."""
    edge_index = make_edges(size)
    edge_type = by_order("degree")(Graph(edge_index, size.num_nodes))
    adj = RelationalAdj(edge_index.to(device), edge_type.to(device), num_relations=3, num_nodes=size.num_nodes)
    return adj.normalized("dir", torch.float32)
