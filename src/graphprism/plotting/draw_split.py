"""A graph and its relations, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphprism._checks import check_optional_whole
from graphprism._extras import needs_extra
from graphprism.plotting.figure import COLOURS, new_figure
from graphprism.plotting.graph_layout import graph_layout
from graphprism.splitting import GraphLike, Split, resolve_split
from graphprism.splitting.graph import edges_of, num_nodes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Array = npt.NDArray[Any]
# In edge lengths; bounded because many arrows may meet at one node.
_LARGEST_TIP = 0.16


@dataclass(frozen=True, eq=False)
class Strokes:
    """Lines (A, 2, 2) from rim to rim, tips of arrows as triangles (B, 3, 2), and centres of loops (C, 2)."""

    lines: _Array
    tips: _Array
    loops: _Array


def strokes(edges: Tensor, positions: _Array, radius: float) -> Strokes:
    """One line per pair of adjacent nodes, however many edges join them, and an arrow tip at each target.

    If every edge has its reverse, the graph is drawn as undirected, without tips.
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
    with needs_extra("a picture"):
        from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(list(shapes.lines), colors=colour, linewidths=0.8, zorder=0))


def draw_strokes(axes: Axes, shapes: Strokes, colour: str, radius: float) -> None:
    """Adds the shapes below the nodes."""
    with needs_extra("a picture"):
        from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
        from matplotlib.patches import Circle

    axes.add_collection(LineCollection(list(shapes.lines), colors=colour, linewidths=1.1, zorder=1))
    axes.add_collection(PolyCollection(list(shapes.tips), facecolors=colour, linewidths=0, zorder=2))
    circles = [Circle((x, y + 1.3 * radius), radius) for x, y in shapes.loops]
    axes.add_collection(PatchCollection(circles, facecolor="none", edgecolor=colour, linewidth=1.1, zorder=1))


def _tips(points: _Array, along: _Array, size: float) -> _Array:
    """Triangles whose points lie on the rims of the target nodes."""
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    foot = points - 1.5 * size * along
    return np.stack([points, foot + 0.6 * size * across, foot - 0.6 * size * across], axis=1)


MAX_NODES = 2000
# Most nodes that are labelled with their numbers; more would not be legible.
_NUMBERED = 40
_GREY, _PALE, _INK = "#5b5b5b", "#dedede", "#1f1f1f"
# Panels per row, for graphs of up to that many nodes; larger graphs get larger panels, two per row.
_COLUMNS, _IN_ONE_ROW = 4, 100
_LEGEND = "Filled nodes receive messages in a relation, hollow ones receive none."


def draw_split(
    graph: GraphLike, split: str | Split = "degree", title: str = "", *, columns: int | None = None
) -> Figure:
    """Draws the graph and, beside it, one panel per relation with its edges as coloured arrows.

    Nodes have the same position in all panels; nodes without incoming edges of a relation are hollow in its panel. An
    edge and its reverse in one relation are drawn as one line; a relation of such edges only has no arrows.

    Args:
        graph: At most 2000 nodes; legible up to some 200.
        split: A split into relations (not into scores), or its text.
        title: Title above the panels.
        columns: Most panels per row; by default four, or two for a graph of more than 100 nodes.
    """
    check_optional_whole("columns", columns)
    resolved = resolve_split(split)
    num_nodes, edge_index = num_nodes_of(graph), edges_of(graph).cpu()
    if not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(f"a graph must have 1 to {MAX_NODES} nodes to be drawn, got {num_nodes}")
    edge_type = resolved(graph).cpu()
    if edge_type.dim() != 1:
        raise ValueError(f"`split` must put every edge into one relation to be drawn, got scores from {resolved!r}")
    positions = graph_layout(edge_index, num_nodes)
    panels = [("graph", edge_index, _GREY), *_relations(resolved, edge_index, edge_type)]
    figure, all_axes = _sheet(len(panels), positions, columns)
    for axes, (name, edges, colour) in zip(all_axes, panels, strict=True):
        draw_lines(axes, strokes(edge_index, positions, 0.0), _PALE)
        _panel(axes, positions, edges, colour)
        _describe(axes, name, edges, colour)
    figure.suptitle(title, x=0.005, ha="left", fontsize=12)
    figure.supxlabel(_LEGEND, x=0.005, ha="left", fontsize=8, color="0.4")
    return figure


def _relations(split: Split, edge_index: Tensor, edge_type: Tensor) -> list[tuple[str, Tensor, str]]:
    count = split.num_relations or (int(edge_type.max()) + 1 if edge_type.numel() else 1)
    names = split.names or tuple(map(str, range(count)))
    return [
        (
            f"relation {name}" if name.isdigit() else name,
            edge_index[:, edge_type == number],
            COLOURS[number % len(COLOURS)],
        )
        for number, name in enumerate(names)
    ]


def _sheet(count: int, positions: _Array, columns: int | None) -> tuple[Figure, list[Axes]]:
    """One axes per panel, with the aspect ratio of the graph layout."""
    columns = min(count, columns or (_COLUMNS if len(positions) <= _IN_ONE_ROW else _COLUMNS // 2))
    rows = -(-count // columns)
    width, height = np.ptp(positions, axis=0) + 1.0
    across = float(np.clip(0.36 * len(positions) ** 0.5, 3.6, 7.0))  # inches: more nodes, more room
    panel = across * float(np.clip(height / width, 0.45, 1.2))
    figure = new_figure((across + 0.2) * columns, (panel + 0.35) * rows + 0.6)
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr,call-arg]
    found = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes in found[count:]:
        axes.set_visible(False)
    return figure, found[:count]


def _panel(axes: Axes, positions: _Array, edges: Tensor, colour: str) -> None:
    radius = _radius(positions)
    draw_strokes(axes, strokes(edges, positions, radius), colour, radius)
    entered = torch.bincount(edges[1], minlength=len(positions)).numpy() > 0
    axes.add_collection(_circles(positions, radius, entered, colour))
    if len(positions) <= _NUMBERED:
        _write_numbers(axes, positions, entered, colour)
    low, high = positions.min(0) - 0.6, positions.max(0) + 0.6
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.axis("off")


def _write_numbers(axes: Axes, positions: _Array, entered: _Array, colour: str) -> None:
    on_colour = "white" if _luminance(colour) < 0.5 else _INK
    for number, (x, y) in enumerate(positions):
        ink = on_colour if entered[number] else "0.35"
        axes.text(x, y, str(number), ha="center", va="center_baseline", fontsize=6.5, color=ink, zorder=4)


def _luminance(colour: str) -> float:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _radius(positions: _Array) -> float:
    """Radius of a node, in edge lengths: so small that most nodes do not touch their neighbours."""
    if len(positions) == 1:
        return 0.28
    squares = ((positions[:, None] - positions[None]) ** 2).sum(2) + np.diag(np.full(len(positions), np.inf))
    return float(np.clip(0.42 * np.quantile(np.sqrt(squares.min(1)), 0.25), 0.08, 0.28))


def _circles(positions: _Array, radius: float, entered: _Array, colour: str) -> Any:
    with needs_extra("a picture"):
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Circle

    circles = PatchCollection([Circle((x, y), radius) for x, y in positions], zorder=3)
    circles.set_facecolor([colour if filled else "white" for filled in entered])
    circles.set_edgecolor([colour if filled else "0.65" for filled in entered])
    circles.set_linewidth(0.8)
    return circles


def _describe(axes: Axes, name: str, edges: Tensor, colour: str) -> None:
    count = edges.size(1)
    ink = colour if _luminance(colour) < 0.5 else _INK  # the panel is white
    axes.set_title(name, loc="left", fontsize=11, color=ink, fontweight="bold")
    axes.set_title(f"{count} {'edge' if count == 1 else 'edges'}", loc="right", fontsize=8, color="0.4")
