"""The tables and figures of the paper: one file each, listed in `TABLES`."""

from __future__ import annotations

from graphprism.experiments.experiment import Experiment, TrainedTable
from graphprism.experiments.tables.depth import DEPTH
from graphprism.experiments.tables.directed import DIRECTED
from graphprism.experiments.tables.faber import FABER
from graphprism.experiments.tables.figure_2 import FIGURE_2_CURVES
from graphprism.experiments.tables.homophilic import HOMOPHILIC
from graphprism.experiments.tables.memory import MEMORY_TABLE
from graphprism.experiments.tables.orderings import ORDERINGS_64, ORDERINGS_TABLE
from graphprism.experiments.tables.parameters import PARAMETERS_TABLE
from graphprism.experiments.tables.peptides import PEPTIDES
from graphprism.experiments.tables.remedies import REMEDIES_TABLE, RemediesTable
from graphprism.experiments.tables.runtime import RUNTIME_TABLE
from graphprism.experiments.tables.strong import STRONG, STRONG_VARIANTS
from graphprism.experiments.tables.zinc import TRAINING_LOSS, ZINC, plot_training_loss

# The experiments of `graphprism reproduce`, in this order.
TABLES: tuple[Experiment, ...] = (
    FIGURE_2_CURVES,
    PARAMETERS_TABLE,
    RUNTIME_TABLE,
    MEMORY_TABLE,
    TrainedTable(ORDERINGS_TABLE),
    TrainedTable(ORDERINGS_64),
    TrainedTable(ZINC),
    TrainedTable(DEPTH),
    TrainedTable(PEPTIDES),
    TrainedTable(TRAINING_LOSS, draw=plot_training_loss),
    TrainedTable(DIRECTED),
    TrainedTable(FABER),
    TrainedTable(HOMOPHILIC),
    TrainedTable(STRONG),
    TrainedTable(STRONG_VARIANTS),
    REMEDIES_TABLE,
)


def trained_of(experiment: Experiment) -> tuple[TrainedTable, ...]:
    """The tables of trained networks of an experiment: itself, the remedies of each stored data set, or none."""
    if isinstance(experiment, RemediesTable):
        return experiment.trained
    return (experiment,) if isinstance(experiment, TrainedTable) else ()


__all__ = [
    "DEPTH",
    "DIRECTED",
    "FABER",
    "HOMOPHILIC",
    "ORDERINGS_64",
    "ORDERINGS_TABLE",
    "PEPTIDES",
    "STRONG",
    "STRONG_VARIANTS",
    "TABLES",
    "TRAINING_LOSS",
    "ZINC",
]
