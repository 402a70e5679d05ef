"""Order by triangles."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphprism.splitting.adjacency import Adjacency, simple_edges
from graphprism.splitting.graph import GraphLike, edges_of, num_nodes_of

# Paths looked at together: temporaries of 8 MB a piece.
_PATHS_PER_CHUNK = 1 << 20


def triangles(graph: GraphLike) -> Tensor:
    """Number of triangles through each node.

    Of the simple undirected graph: directions, loops and repeated edges do not count. Every edge points from the
    smaller to the larger (degree, number), then no node has more than sqrt(2E) neighbours ahead, and a triangle is a
    path a -> b -> c with an edge a -> c: time O(E^1.5) at worst, in bounded memory. Shapes: (N,) long
    """
    num_nodes = num_nodes_of(graph)
    edges = _pointing_up(simple_edges(edges_of(graph), num_nodes), num_nodes)
    adjacency = Adjacency.from_edges(edges, num_nodes)
    pairs = (edges[0] * num_nodes + edges[1]).sort().values
    count = edges.new_zeros(num_nodes)
    for part in _chunks_by_paths(edges, adjacency):
        edge, c = adjacency.lists(part[1])
        a, b = part[0][edge], part[1][edge]
        closed = _contains(pairs, a * num_nodes + c)
        corner = torch.cat([a[closed], b[closed], c[closed]])
        count.index_add_(0, corner, torch.ones_like(corner))
    return count


def _pointing_up(edges: Tensor, num_nodes: int) -> Tensor:
    degree = torch.bincount(edges.flatten(), minlength=num_nodes)
    # The smaller number comes first already, so only a strictly larger degree turns an edge.
    turn = degree[edges[0]] > degree[edges[1]]
    return torch.where(turn, edges.flip(0), edges)


def _chunks_by_paths(edges: Tensor, adjacency: Adjacency) -> Iterator[Tensor]:
    """Runs of edges with about ``_PATHS_PER_CHUNK`` continuations each."""
    paths = adjacency.start.diff()[edges[1]].cumsum(0)
    total = int(paths[-1]) if paths.numel() else 0
    limits = _PATHS_PER_CHUNK * torch.arange(1, 1 + total // _PATHS_PER_CHUNK, device=edges.device)
    yield from edges.tensor_split(torch.searchsorted(paths, limits).cpu(), dim=1)


def _contains(sorted_values: Tensor, wanted: Tensor) -> Tensor:
    if sorted_values.numel() == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(sorted_values, wanted).clamp_(max=sorted_values.numel() - 1)
    return sorted_values[place] == wanted
