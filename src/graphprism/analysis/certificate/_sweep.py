"""Walking a graph front by front: the one loop behind reachability and peeling."""

from __future__ import annotations

import numpy as np

from graphprism.analysis.certificate._adjacency import Adjacency, Integers

# A front of fewer nodes goes by hand, edge by edge (0.3 us each): a round of numpy calls costs 20 us however small it
# is, and a path of 10^6 nodes has 10^6 rounds.
_SMALL_FRONT = 64


def sweep(graph: Adjacency, starts: Integers, wait: Integers) -> Integers:
    """Spreads from ``starts`` along the edges; a node joins when ``wait`` edges from nodes that joined have reached it.

    With ``wait`` all 1 this is reachability, with ``wait`` the in-degrees it is Kahn's peeling. Every edge is used at
    most once, so time is linear in nodes and edges whatever the shape of the graph.

    Args:
        graph: The edges.
        starts: Nodes that join at the beginning.
        wait: Arrivals that each node still waits for, (N,). Changed in place: the nodes that joined end at 0 or less.

    Returns:
        Depth of each node (N,): 0 at the starts, else one more than the depth of the node whose edge arrived last.
    """
    depth = np.zeros(graph.num_nodes, np.int64)
    wait[starts] = 0
    front = starts
    while front.size:
        step = _by_hand if front.size < _SMALL_FRONT else _one_round
        front = step(graph, front, wait, depth)
    return depth


def _one_round(graph: Adjacency, front: Integers, wait: Integers, depth: Integers) -> Integers:
    first, count = graph.pointer[front], graph.pointer[front + 1] - graph.pointer[front]
    ends = np.cumsum(count)
    edges = np.repeat(first - (ends - count), count) + np.arange(ends[-1])
    target, arrival = graph.target[edges], np.repeat(depth[front] + 1, count)
    waiting = wait[target] > 0
    target, arrival = target[waiting], arrival[waiting]
    depth[target] = arrival
    reached, arrivals = np.unique(target, return_counts=True)
    wait[reached] -= arrivals
    joined: Integers = reached[wait[reached] <= 0]
    return joined


def _by_hand(graph: Adjacency, front: Integers, wait: Integers, depth: Integers) -> Integers:
    # Views of Python integers: reading one costs half of reading a numpy scalar.
    pointer, target, waiting, depths = graph.pointer.data, graph.target.data, wait.data, depth.data
    stack = front.tolist()
    while stack and len(stack) < _SMALL_FRONT:
        node = stack.pop()
        for edge in range(pointer[node], pointer[node + 1]):
            other = target[edge]
            if waiting[other] > 0:
                depths[other] = depths[node] + 1
                waiting[other] -= 1
                if waiting[other] == 0:
                    stack.append(other)
    return np.array(stack, np.int64)
