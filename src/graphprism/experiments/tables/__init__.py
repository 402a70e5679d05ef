"""What the paper did, as data: a file for each table or figure."""

from __future__ import annotations

from graphprism.experiments.tables.depth import DEPTH
from graphprism.experiments.tables.directed import DIRECTED
from graphprism.experiments.tables.figure_2_result import FIGURE_2, Figure2Spec
from graphprism.experiments.tables.homophilic import HOMOPHILIC
from graphprism.experiments.tables.memory import MEMORY, MEMORY_SOURCE, MemoryRow
from graphprism.experiments.tables.orderings import ORDERINGS_64, ORDERINGS_TABLE
from graphprism.experiments.tables.parameters import PARAMETERS, PARAMETERS_SOURCE, ParametersRow
from graphprism.experiments.tables.peptides import PEPTIDES
from graphprism.experiments.tables.runtime import RUNTIME, RUNTIME_SOURCE, STEPS, RuntimeRow
from graphprism.experiments.tables.zinc import TRAINING_LOSS, ZINC

__all__ = [
    "DEPTH",
    "DIRECTED",
    "FIGURE_2",
    "HOMOPHILIC",
    "MEMORY",
    "MEMORY_SOURCE",
    "ORDERINGS_64",
    "ORDERINGS_TABLE",
    "PARAMETERS",
    "PARAMETERS_SOURCE",
    "PEPTIDES",
    "RUNTIME",
    "RUNTIME_SOURCE",
    "STEPS",
    "TRAINING_LOSS",
    "ZINC",
    "Figure2Spec",
    "MemoryRow",
    "ParametersRow",
    "RuntimeRow",
]
