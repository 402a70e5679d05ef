"""What the paper did, as data: a file for each table or figure."""

from graphprism.experiments.specs.figure_2 import FIGURE_2, Figure2Spec

__all__ = ["FIGURE_2", "Figure2Spec"]
