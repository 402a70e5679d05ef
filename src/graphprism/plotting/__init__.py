"""Plots of graphs and their splits, and the style and file formats of all figures."""

from __future__ import annotations

from graphprism.plotting.draw_split import MAX_NODES, draw_split
from graphprism.plotting.figure import COLOURS, check_format, new_figure, save_figure
from graphprism.plotting.graph_layout import graph_layout

__all__ = [
    "COLOURS",
    "MAX_NODES",
    "check_format",
    "draw_split",
    "graph_layout",
    "new_figure",
    "save_figure",
]
