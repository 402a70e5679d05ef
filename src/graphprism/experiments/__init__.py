"""The figures of the paper, each one function from a specification to numbers."""

from graphprism.experiments.figure_2 import run_figure_2
from graphprism.experiments.figure_2_result import Figure2Result
from graphprism.experiments.figure_2_spec import figure_2_spec
from graphprism.experiments.find_graph import find_graph
from graphprism.experiments.plot_figure_2 import plot_figure_2
from graphprism.experiments.specs import FIGURE_2, Figure2Spec

__all__ = [
    "FIGURE_2",
    "Figure2Result",
    "Figure2Spec",
    "figure_2_spec",
    "find_graph",
    "plot_figure_2",
    "run_figure_2",
]
