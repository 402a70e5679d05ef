"""Is a relation acyclic, and if not, where does it go round."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape
from graphprism.analysis.certificate._adjacency import Adjacency, Bools, Integers, adjacency
from graphprism.analysis.certificate._sweep import sweep


def find_cycle(edge_index: Tensor, num_nodes: int) -> list[int]:
    """One cycle of a directed graph as the nodes it visits in order, or an empty list if the graph is acyclic.

    Kahn's algorithm: nodes that no edge enters are taken away with their edges until none is left, in time linear in
    nodes and edges. Nodes that remain are all entered from nodes that remain; walking backwards among them must
    return. The walk takes the smallest such node each time: where all edges run both ways the cycle has one or two
    nodes.

    Shapes: ``edge_index`` (2, E)

    >>> import torch
    >>> find_cycle(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 1]]), num_nodes=4)
    [1, 2, 3]
    """
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes)
    source, target = edge_index.detach().cpu().long().numpy()
    graph = adjacency(source, target, num_nodes)
    return cycle_among(graph, nodes_after_peeling(graph))


def nodes_after_peeling(graph: Adjacency) -> Bools:
    """Nodes that lie on a cycle or behind one, (N,); none iff the graph is acyclic."""
    wait = np.bincount(graph.target, minlength=graph.num_nodes)
    sweep(graph, np.flatnonzero(wait == 0), wait)
    return wait > 0


def cycle_among(graph: Adjacency, remaining: Bools) -> list[int]:
    """A cycle among the nodes that `nodes_after_peeling` left, starting at its smallest node."""
    if not remaining.any():
        return []
    previous = _smallest_predecessor(graph, remaining)
    node, step_of_node, walk = int(remaining.argmax()), dict[int, int](), list[int]()
    while node not in step_of_node:
        step_of_node[node] = len(walk)
        walk.append(node)
        node = int(previous[node])
    cycle = walk[step_of_node[node] :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def _smallest_predecessor(graph: Adjacency, remaining: Bools) -> Integers:
    source = graph.source
    among = np.flatnonzero(remaining[source] & remaining[graph.target])[::-1]
    previous = np.full(graph.num_nodes, -1, np.int64)
    previous[graph.target[among]] = source[among]  # sorted by falling source: of several values the last one stays
    return previous
