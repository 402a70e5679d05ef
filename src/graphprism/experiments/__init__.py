"""The tables and figures of the paper, each from a specification to numbers, and the ledger of all results."""

from graphprism.experiments.figure_2 import run_figure_2
from graphprism.experiments.figure_2_result import Figure2Result
from graphprism.experiments.figure_2_spec import figure_2_spec
from graphprism.experiments.find_graph import find_graph
from graphprism.experiments.ledger import Ledger
from graphprism.experiments.memory_table import memory_table
from graphprism.experiments.parameters_table import parameters_table
from graphprism.experiments.plot_figure_2 import plot_figure_2
from graphprism.experiments.plot_training_loss import plot_training_loss
from graphprism.experiments.reproduce import Reproduction
from graphprism.experiments.run_missing import Listener, run_missing
from graphprism.experiments.runtime_table import runtime_table
from graphprism.experiments.settings import Settings
from graphprism.experiments.show_table import show_table
from graphprism.experiments.specs import (
    DEPTH,
    DIRECTED,
    FIGURE_2,
    HOMOPHILIC,
    ORDERINGS_64,
    ORDERINGS_TABLE,
    PEPTIDES,
    TRAINING_LOSS,
    ZINC,
    Figure2Spec,
)
from graphprism.experiments.table_spec import CellSpec, TableSpec
from graphprism.experiments.write_table import write_table

__all__ = [
    "DEPTH",
    "DIRECTED",
    "FIGURE_2",
    "HOMOPHILIC",
    "ORDERINGS_64",
    "ORDERINGS_TABLE",
    "PEPTIDES",
    "TRAINING_LOSS",
    "ZINC",
    "CellSpec",
    "Figure2Result",
    "Figure2Spec",
    "Ledger",
    "Listener",
    "Reproduction",
    "Settings",
    "TableSpec",
    "figure_2_spec",
    "find_graph",
    "memory_table",
    "parameters_table",
    "plot_figure_2",
    "plot_training_loss",
    "run_figure_2",
    "run_missing",
    "runtime_table",
    "show_table",
    "write_table",
]
