"""What the paper did, as data: a file for each table or figure."""

from graphprism.experiments.specs.depth import DEPTH
from graphprism.experiments.specs.directed import DIRECTED
from graphprism.experiments.specs.figure_2 import FIGURE_2, Figure2Spec
from graphprism.experiments.specs.homophilic import HOMOPHILIC
from graphprism.experiments.specs.memory import MEMORY, MEMORY_SOURCE, MemoryRow
from graphprism.experiments.specs.orderings import ORDERINGS_64, ORDERINGS_TABLE
from graphprism.experiments.specs.parameters import PARAMETERS, PARAMETERS_SOURCE, ParametersRow
from graphprism.experiments.specs.peptides import PEPTIDES
from graphprism.experiments.specs.runtime import RUNTIME, RUNTIME_SOURCE, STEPS, RuntimeRow
from graphprism.experiments.specs.training_loss import TRAINING_LOSS
from graphprism.experiments.specs.zinc import ZINC

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
