"""Two nodes that show that a split works."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graphprism.analysis.certificate.direction_groups import first_rows


def independent_witness(groups: Tensor, batch: Tensor | None = None) -> tuple[int, int] | None:
    """Two structurally independent nodes of one graph, or None if there are none.

    Of the first graph that has any: the first nodes of its two largest groups of one direction, the larger group first,
    and the group of the earlier node first where sizes are equal.

    Args:
        groups: Result of `direction_groups`, (N,).
        batch: Number of the graph of each node, (N,); None for one graph.

    >>> import torch
    >>> independent_witness(torch.tensor([-1, 0, 1, 1]))
    (2, 1)
    """
    numbers = groups.numpy()
    nodes = np.flatnonzero(numbers >= 0)
    if nodes.size == 0:
        return None
    numbers = numbers[nodes]
    first = nodes[first_rows(numbers)]  # (groups,)
    graph_of_group = np.zeros(first.size, np.int64) if batch is None else batch.numpy()[first]
    with_pairs = np.flatnonzero(np.bincount(graph_of_group) > 1)
    if with_pairs.size == 0:
        return None
    candidates = np.flatnonzero(graph_of_group == with_pairs[0])
    order = np.lexsort((first[candidates], -np.bincount(numbers)[candidates]))
    larger, smaller = (int(node) for node in first[candidates[order[:2]]])
    return larger, smaller
