"""Acyclicity and ergodicity of a relation: roots, a cycle, strong connectivity, period."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape, check_whole
from graphprism.analysis.certificate.directions import checked_batch
from graphprism.analysis.certificate.in_degrees import Adjacency, Bools, Integers, adjacency


def root_nodes(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Mask of the nodes without incoming edges, isolated nodes included.

    Two acyclic relations that are not empty and whose roots differ always leave structurally independent nodes,
    whatever the weights, as long as the weights that enter a node do not cancel.

    Shapes: ``edge_index`` (2, E) -> (N,) bool

    >>> root_nodes(torch.tensor([[0, 0], [1, 2]]), num_nodes=4).tolist()
    [True, False, False, True]
    """
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_whole("num_nodes", num_nodes)
    check_range("edge_index", edge_index, num_nodes)
    return torch.bincount(edge_index[1].long(), minlength=num_nodes) == 0


# A frontier of fewer nodes is processed in a Python loop (0.3 us per edge): a round of numpy calls costs 20 us however
# small it is, and a path of 10^6 nodes has 10^6 rounds.
_SMALL_FRONT = 64


def sweep(graph: Adjacency, starts: Integers, wait: Integers) -> Integers:
    """Spreads from ``starts`` along the edges; a node joins when ``wait`` edges from nodes that joined have reached it.

    With ``wait`` all 1 this is reachability, with ``wait`` the in-degrees it is Kahn's peeling. Every edge is used at
    most once, so time is linear in nodes and edges whatever the shape of the graph.

    Args:
        graph: The edges.
        starts: Nodes that join at the beginning.
        wait: Remaining arrivals until each node joins, (N,). Updated in place: nodes that joined end at 0 or less.

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
    # memoryviews: reading an element takes half the time of reading a numpy scalar.
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


def find_cycle(edge_index: Tensor, num_nodes: int) -> list[int]:
    """One cycle of a directed graph as the nodes it visits in order, or an empty list if the graph is acyclic.

    Kahn's algorithm: nodes without incoming edges are removed with their edges until there are none, in time linear in
    nodes and edges. Every remaining node has a remaining predecessor, so that a walk backwards among them must close a
    cycle. The walk takes the smallest predecessor each time: if every edge has its reverse, the cycle has one or two
    nodes.

    Shapes: ``edge_index`` (2, E)

    >>> import torch
    >>> find_cycle(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 1]]), num_nodes=4)
    [1, 2, 3]
    """
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_whole("num_nodes", num_nodes)
    check_range("edge_index", edge_index, num_nodes)
    source, target = edge_index.detach().cpu().long().numpy()
    graph = adjacency(source, target, num_nodes)
    return cycle_among(graph, nodes_after_peeling(graph))


def nodes_after_peeling(graph: Adjacency) -> Bools:
    """Mask of the nodes on a cycle or reachable from one, (N,); empty iff the graph is acyclic."""
    wait = np.bincount(graph.target, minlength=graph.num_nodes)
    sweep(graph, np.flatnonzero(wait == 0), wait)
    return wait > 0


def cycle_among(graph: Adjacency, remaining: Bools) -> list[int]:
    """A cycle among the nodes of `nodes_after_peeling`, starting at its smallest node."""
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
    previous[graph.target[among]] = source[among]  # sources in descending order: the last write, of the smallest, wins
    return previous


def ergodic_graphs(
    edge_index: Tensor, num_nodes: int, batch: Tensor | None = None, num_graphs: int | None = None
) -> Tensor:
    r"""For each graph, whether its edges are ergodic: strongly connected on all of its nodes, and aperiodic.

    Strongly connected: one node reaches all nodes along the edges and against them. Aperiodic: the lengths of the
    cycles have no common divisor above 1. With :math:`\ell` the depths of any tree of paths from one node, that
    divisor is

    .. math:: \gcd_{(u, v) \in \mathcal{E}} \left( \ell(u) + 1 - \ell(v) \right).

    A graph without a cycle (one node without a loop; no nodes) is not ergodic. Time is linear in nodes and edges.

    Shapes: ``edge_index`` (2, E), ``batch`` (N,) -> (G,) bool

    >>> ergodic_graphs(torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 0]]), num_nodes=3).tolist()
    [True]
    """
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_whole("num_nodes", num_nodes)
    check_range("edge_index", edge_index, num_nodes)
    batch, num_graphs = checked_batch(batch, num_nodes, num_graphs)
    source, target = edge_index.detach().cpu().long().numpy()
    return torch.from_numpy(ergodic_among(adjacency(source, target, num_nodes), batch.numpy(), num_graphs))


def ergodic_among(graph: Adjacency, batch: Integers, num_graphs: int) -> Bools:
    """`ergodic_graphs` on sorted edges."""
    ergodic = _left_and_entered(graph, batch, num_graphs)
    starts = _first_nodes(batch, num_graphs)[ergodic]
    reached, depth = _reach(graph, starts)
    ergodic &= ~_holds_any(batch, num_graphs, ~reached)
    if not ergodic.any():
        return ergodic
    # The period first: bipartite graphs, such as trees and grids, then need no second search.
    ergodic &= _periods(graph, depth, batch, num_graphs) == 1
    if not ergodic.any():
        return ergodic
    backward = adjacency(graph.target, graph.source, graph.num_nodes)
    if not np.array_equal(backward.target, graph.target) or not np.array_equal(backward.pointer, graph.pointer):
        ergodic &= ~_holds_any(batch, num_graphs, ~_reach(backward, starts)[0])
    return ergodic


def _left_and_entered(graph: Adjacency, batch: Integers, num_graphs: int) -> Bools:
    """Mask of the graphs whose nodes all have incoming and outgoing edges: necessary for ergodicity, and cheap."""
    lonely = (np.diff(graph.pointer) == 0) | (np.bincount(graph.target, minlength=graph.num_nodes) == 0)
    has_nodes: Bools = np.bincount(batch, minlength=num_graphs) > 0
    return has_nodes & ~_holds_any(batch, num_graphs, lonely)


def _holds_any(batch: Integers, num_graphs: int, marked: Bools) -> Bools:
    holds = np.zeros(num_graphs, np.bool_)
    holds[batch[marked]] = True
    return holds


def _first_nodes(batch: Integers, num_graphs: int) -> Integers:
    first = np.zeros(num_graphs, np.int64)
    first[batch[::-1]] = np.arange(batch.size)[::-1]
    return first


def _reach(graph: Adjacency, starts: Integers) -> tuple[Bools, Integers]:
    wait = np.ones(graph.num_nodes, np.int64)
    depth = sweep(graph, starts, wait)
    return wait <= 0, depth


def _periods(graph: Adjacency, depth: Integers, batch: Integers, num_graphs: int) -> Integers:
    source = graph.source
    difference = depth[source] + 1 - depth[graph.target]
    counted = np.flatnonzero(difference)  # the edges of the tree add nothing: gcd(0, a) = a
    periods = np.zeros(num_graphs, np.int64)
    np.gcd.at(periods, batch[source[counted]], difference[counted])
    return periods
