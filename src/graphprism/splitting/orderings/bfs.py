"""Order by distance."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_same_device
from graphprism.splitting.adjacency import Adjacency
from graphprism.splitting.graph import GraphLike, edges_of, num_nodes_of
from graphprism.splitting.orderings.degree import degree
from graphprism.splitting.parts import Parts, parts_of


def bfs(graph: GraphLike, root: int | Tensor | None = None) -> Tensor:
    """Number of edges on a shortest path, along the edges, from the nearest root to each node.

    ``root`` None makes all nodes of maximal out-degree of each graph roots, whatever the numbering; an int is the
    number of a node within each graph of a batch; a tensor holds node numbers of the whole batch. A node that no root
    reaches gets the number of nodes of its graph, which is more than any distance. Shapes: (N,) long

    >>> from graphprism.splitting import Graph
    >>> bfs(Graph(torch.tensor([[0, 1, 3], [1, 2, 2]]), num_nodes=4), root=0).tolist()
    [0, 1, 2, 4]
    """
    parts, adjacency = parts_of(graph), Adjacency.from_edges(edges_of(graph), num_nodes_of(graph))
    distance, step = parts.sizes(), 0
    frontier = _roots(graph, parts, root)
    while frontier.numel():
        distance[frontier] = step
        step += 1
        _, reached = adjacency.lists(frontier)
        frontier = torch.unique(reached[distance[reached] > step])
    return distance


def _roots(graph: GraphLike, parts: Parts, root: int | Tensor | None) -> Tensor:
    if root is None:
        out_degree = degree(graph)
        return (out_degree == parts.maximum(out_degree)).nonzero().flatten()
    if isinstance(root, Tensor):
        check_integer("root", root)
        check_range("root", root, num_nodes_of(graph))
        check_same_device("root", root, "edge_index", parts.number)
        return root.long().flatten()
    sizes = parts.sizes()
    if sizes.numel() and not 0 <= root < int(sizes.min()):
        raise ValueError(f"`root` must be a node of every graph, so in [0, {int(sizes.min())}), got {root}")
    return (parts.local() == root).nonzero().flatten()
