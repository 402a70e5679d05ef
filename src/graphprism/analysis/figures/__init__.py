"""Pictures of graphs and their splits, and what all pictures share."""

from graphprism.analysis.figures.draw_split import MAX_NODES, draw_split
from graphprism.analysis.figures.graph_layout import graph_layout
from graphprism.analysis.figures.new_figure import COLOURS, new_figure
from graphprism.analysis.figures.save_figure import check_format, save_figure
from graphprism.analysis.figures.write_atomically import write_atomically

__all__ = [
    "COLOURS",
    "MAX_NODES",
    "check_format",
    "draw_split",
    "graph_layout",
    "new_figure",
    "save_figure",
    "write_atomically",
]
