"""Layout of a graph in the plane by stress majorisation."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

_Array = npt.NDArray[Any]
# Rounds of majorisation: on molecules and citation graphs it converges after some 60.
_ROUNDS = 150
# Gap between two components, in edge lengths.
_GAP = 1.0


def graph_layout(edge_index: Tensor, num_nodes: int) -> _Array:
    r"""Positions (N, 2) whose distances approximate shortest-path lengths; an edge is about one unit long.

    Each connected component minimises the stress :math:`\sum_{i<j} d_{ij}^{-2} (\|\mathbf{p}_i - \mathbf{p}_j\| -
    d_{ij})^2`, where :math:`d_{ij}` is the length of the shortest path (ignoring directions), by majorisation from the
    two leading components of classical scaling. The components are placed side by side. The layout is deterministic.

    >>> import torch
    >>> graph_layout(torch.tensor([[0, 1], [1, 2]]), 3).shape
    (3, 2)
    """
    neighbours: list[list[int]] = [[] for _ in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        if source != target:
            neighbours[source].append(target)
            neighbours[target].append(source)
    positions = np.zeros((num_nodes, 2))
    components = _components(neighbours)
    for component, place in zip(
        components, _side_by_side([_place(part, neighbours) for part in components]), strict=True
    ):
        positions[component] = place
    return positions


def _components(neighbours: list[list[int]]) -> list[list[int]]:
    """The connected components, largest first."""
    left, found = dict.fromkeys(range(len(neighbours))), []
    while left:
        component = sorted(_steps_from(next(iter(left)), neighbours))
        found.append(component)
        for node in component:
            del left[node]
    return sorted(found, key=len, reverse=True)


def _steps_from(start: int, neighbours: list[list[int]]) -> dict[int, int]:
    """Number of steps to every node that can be reached."""
    steps, queue = {start: 0}, deque([start])
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other not in steps:
                steps[other] = steps[node] + 1
                queue.append(other)
    return steps


def _place(component: list[int], neighbours: list[list[int]]) -> _Array:
    if len(component) == 1:
        return np.zeros((1, 2))
    steps = np.empty((len(component), len(component)))
    for row, node in zip(steps, component, strict=True):
        found = _steps_from(node, neighbours)
        row[:] = [found[other] for other in component]
    return _lying(_majorise(_scaled(steps), steps))


def _scaled(steps: _Array) -> _Array:
    """Classical scaling: the two leading eigenvectors of the doubly centred squares."""
    squares = steps**2
    centred = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    if start.shape[1] < 2:
        start = np.hstack([start, np.zeros_like(start)])
    # Twins, such as the leaves of a star, may start at the same point, and majorisation cannot separate them.
    return np.asarray(start + np.random.default_rng(0).uniform(-0.05, 0.05, start.shape))


def _majorise(positions: _Array, steps: _Array) -> _Array:
    """Minimises the stress; every round solves a linear system given the directions of the last round."""
    count = len(positions)
    apart = steps + np.eye(count)
    weight = apart**-2.0
    np.fill_diagonal(weight, 0.0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.inv(laplacian + 1.0 / count)
    for _ in range(_ROUNDS):
        squares = (positions**2).sum(1)
        distance = np.sqrt(np.maximum(squares[:, None] + squares - 2 * positions @ positions.T, 1e-12))
        pull = weight * apart / distance
        positions = inverse @ (pull.sum(1)[:, None] * positions - pull @ positions)
    return positions


def _lying(positions: _Array) -> _Array:
    """Rotated so that the longest extent is horizontal, and shifted to start at zero."""
    centred = positions - positions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T
    turned *= np.where(turned[np.abs(turned).argmax(0), [0, 1]] < 0, -1, 1)
    return np.asarray(turned - turned.min(0))


def _side_by_side(places: list[_Array]) -> list[_Array]:
    """Components arranged in rows, about as wide as high in total."""
    sizes = [place.max(0) + _GAP for place in places]
    width = max([float(np.sqrt(sum(size.prod() for size in sizes))), *(float(size[0]) for size in sizes)], default=0.0)
    x, y, row, moved = 0.0, 0.0, 0.0, []
    for place, size in zip(places, sizes, strict=True):
        if x > 0 and x + size[0] > width + 1e-9:
            x, y, row = 0.0, y - row, 0.0
        moved.append(place + np.array([x, y - place[:, 1].max()]))
        x, row = x + float(size[0]), max(row, float(size[1]))
    return moved
