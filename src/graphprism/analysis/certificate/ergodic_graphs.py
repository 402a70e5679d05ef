"""On which graphs of a batch is a relation ergodic."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape
from graphprism.analysis.certificate._adjacency import Adjacency, Bools, Integers, adjacency
from graphprism.analysis.certificate._sweep import sweep
from graphprism.analysis.certificate.independent_pairs import checked_batch


def ergodic_graphs(
    edge_index: Tensor, num_nodes: int, batch: Tensor | None = None, num_graphs: int | None = None
) -> Tensor:
    r"""Tells for each graph whether its edges are ergodic: strongly connected on all of its nodes, and aperiodic.

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
    backward = adjacency(graph.target, graph.source, graph.num_nodes)
    ergodic &= ~_holds_any(batch, num_graphs, ~_reach(backward, starts)[0])
    ergodic &= _periods(graph, depth, batch, num_graphs) == 1
    return ergodic


def _left_and_entered(graph: Adjacency, batch: Integers, num_graphs: int) -> Bools:
    """Graphs with nodes all of which are left and entered by an edge: the few that are worth a walk."""
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
