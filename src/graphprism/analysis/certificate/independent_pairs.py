"""How many pairs of nodes are structurally independent."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape
from graphprism.analysis.certificate.direction_groups import DIRECTION_TOLERANCE, direction_groups


def independent_pairs(
    in_degrees: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    tolerance: float = DIRECTION_TOLERANCE,
) -> tuple[Tensor, Tensor]:
    r"""Counts, for each graph, the structurally independent pairs of its nodes and all pairs of its nodes.

    Two nodes are structurally independent if their vectors of weighted in-degrees are linearly independent. With
    :math:`m` vectors that are not zero and groups of :math:`s_1, s_2, \dots` vectors of one direction
    (`direction_groups`) that is

    .. math:: \binom{m}{2} - \sum_g \binom{s_g}{2} \quad \text{of} \quad \binom{n}{2} \text{ pairs}

    without looking at any pair. Nodes of different graphs make no pair.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (G,) long and (G,) long

    >>> independent, pairs = independent_pairs(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [2.0, 1.0]]))
    >>> independent.item(), pairs.item()
    (3, 6)
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    batch, num_graphs = checked_batch(batch, in_degrees.size(0), num_graphs)
    return count_pairs(direction_groups(in_degrees, batch, tolerance=tolerance), batch, num_graphs)


def checked_batch(batch: Tensor | None, num_nodes: int, num_graphs: int | None) -> tuple[Tensor, int]:
    """The number of the graph of each node, and the number of graphs; without ``batch`` all nodes are one graph."""
    if batch is None:
        return torch.zeros(num_nodes, dtype=torch.long), 1 if num_graphs is None else num_graphs
    check_shape("batch", batch, [num_nodes])
    check_integer("batch", batch)
    batch = batch.detach().cpu().long()
    if num_graphs is None:
        num_graphs = int(batch.max()) + 1 if num_nodes else 0
    check_range("batch", batch, num_graphs)
    return batch, num_graphs


def count_pairs(groups: Tensor, batch: Tensor, num_graphs: int) -> tuple[Tensor, Tensor]:
    """`independent_pairs` from the groups of `direction_groups`."""
    graph_of_row, groups = batch[groups >= 0], groups[groups >= 0]
    group_sizes = torch.bincount(groups)
    graph_of_group = torch.zeros_like(group_sizes).scatter_(0, groups, graph_of_row)
    of_one_direction = torch.zeros(num_graphs, dtype=torch.long).index_add_(0, graph_of_group, _pairs(group_sizes))
    not_zero = torch.bincount(graph_of_row, minlength=num_graphs)
    return _pairs(not_zero) - of_one_direction, _pairs(torch.bincount(batch, minlength=num_graphs))


def _pairs(count: Tensor) -> Tensor:
    return count * (count - 1) // 2
