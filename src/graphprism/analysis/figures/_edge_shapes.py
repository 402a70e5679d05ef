"""Lines, arrow heads and loops of the edges of one panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Array = npt.NDArray[Any]
# In lengths of an edge: many arrows may meet at one node.
_LARGEST_TIP = 0.16


@dataclass(frozen=True, eq=False)
class Strokes:
    """Lines (A, 2, 2) from rim to rim, tips of arrows as triangles (B, 3, 2), and centres of loops (C, 2)."""

    lines: _Array
    tips: _Array
    loops: _Array


def strokes(edges: Tensor, positions: _Array, radius: float) -> Strokes:
    """One line for each pair of nodes, whatever the number of edges between them, and a tip at each end they enter.

    Edges that all run both ways are the lines of an undirected graph and have no tips.
    """
    loops = torch.unique(edges[0, edges[0] == edges[1]])
    proper = torch.unique(edges[:, edges[0] != edges[1]], dim=1).numpy()
    start, end = positions[proper[0]], positions[proper[1]]
    length = np.maximum(np.linalg.norm(end - start, axis=1, keepdims=True), 1e-9)
    along = (end - start) / length
    lines = np.stack([start + radius * along, end - radius * along], axis=1)
    once = proper[0] < proper[1]
    turned = {(b, a) for a, b in proper.T.tolist()}
    both = np.array([(a, b) in turned for a, b in proper.T.tolist()], dtype=bool)
    tips = np.empty((0, 3, 2)) if both.all() else _tips(lines[:, 1], along, min(0.85 * radius, _LARGEST_TIP))
    return Strokes(lines[once | ~both], tips, positions[loops.numpy()])


def draw_lines(axes: Axes, shapes: Strokes, colour: str) -> None:
    """Adds the lines alone, below everything."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(list(shapes.lines), colors=colour, linewidths=0.8, zorder=0))


def draw_strokes(axes: Axes, shapes: Strokes, colour: str, radius: float) -> None:
    """Adds the shapes below the nodes."""
    from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
    from matplotlib.patches import Circle

    axes.add_collection(LineCollection(list(shapes.lines), colors=colour, linewidths=1.1, zorder=1))
    axes.add_collection(PolyCollection(list(shapes.tips), facecolors=colour, linewidths=0, zorder=2))
    circles = [Circle((x, y + 1.3 * radius), radius) for x, y in shapes.loops]
    axes.add_collection(PatchCollection(circles, facecolor="none", edgecolor=colour, linewidth=1.1, zorder=1))


def _tips(points: _Array, along: _Array, size: float) -> _Array:
    """Triangles whose points lie on the rims of the nodes that the edges enter."""
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    foot = points - 1.5 * size * along
    return np.stack([points, foot + 0.6 * size * across, foot - 0.6 * size * across], axis=1)
