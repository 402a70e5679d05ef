"""The tables and figures of the paper as specifications, their execution, and the ledger of all results."""

from graphprism.experiments.all_tables import ALL_TABLES
from graphprism.experiments.experiment import Experiment, Measured, Option, TrainedTable
from graphprism.experiments.runner import Reproduction, Trainer, trainer_for
from graphprism.experiments.spec import CellSpec, Settings, TableSpec
from graphprism.experiments.table import show_table
from graphprism.experiments.tables import (
    DEPTH,
    DIRECTED,
    FABER,
    HOMOPHILIC,
    ORDERINGS_64,
    ORDERINGS_TABLE,
    PEPTIDES,
    STRONG,
    STRONG_VARIANTS,
    TABLES,
    TRAINING_LOSS,
    ZINC,
)
from graphprism.experiments.tables.figure_2 import run_figure_2
from graphprism.experiments.tables.figure_2_result import FIGURE_2, Figure2Result, Figure2Spec, plot_figure_2
from graphprism.experiments.tables.memory import memory_table
from graphprism.experiments.tables.parameters import parameters_table
from graphprism.experiments.tables.runtime import runtime_table
from graphprism.experiments.tables.zinc import plot_training_loss
from graphprism.ledger import Ledger

__all__ = [
    "ALL_TABLES",
    "DEPTH",
    "DIRECTED",
    "FABER",
    "FIGURE_2",
    "HOMOPHILIC",
    "ORDERINGS_64",
    "ORDERINGS_TABLE",
    "PEPTIDES",
    "STRONG",
    "STRONG_VARIANTS",
    "TABLES",
    "TRAINING_LOSS",
    "ZINC",
    "CellSpec",
    "Experiment",
    "Figure2Result",
    "Figure2Spec",
    "Ledger",
    "Measured",
    "Option",
    "Reproduction",
    "Settings",
    "TableSpec",
    "TrainedTable",
    "Trainer",
    "memory_table",
    "parameters_table",
    "plot_figure_2",
    "plot_training_loss",
    "run_figure_2",
    "runtime_table",
    "show_table",
    "trainer_for",
]
