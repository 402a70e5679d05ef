"""Widths and numbers of parameters, counted here."""

from __future__ import annotations

from graphprism.datasets import PackedDataset, molecules
from graphprism.experiments.make_table import QUOTED
from graphprism.experiments.specs.parameters import PARAMETERS, PARAMETERS_SOURCE, ParametersRow
from graphprism.results import Cell, Score, TableResult
from graphprism.training import Run, fit_width, parameters_of

_COLUMNS = ("Width", "Parameters")


def parameters_table() -> TableResult:
    """The widest eight layers within 500,000 parameters for each model, and their parameters, counted exactly.

    >>> parameters_table().cell("GCN", "Parameters").gap
    0.0
    """
    # Generated molecules have ZINC's types of atoms and bonds and its one target: all that the count depends on.
    dataset = molecules(1)
    return TableResult(
        name="parameters",
        title="Width and parameters of eight layers on ZINC, at most 500,000",
        source=PARAMETERS_SOURCE,
        rows=tuple(row.row for row in PARAMETERS),
        columns=_COLUMNS,
        cells=tuple(cell for row in PARAMETERS for cell in _cells(row, dataset)),
        larger_is_better=None,
        digits=0,
        notes=("Counted as the paper does: an embedding of bond types belongs to every model.",),
    )


def _cells(row: ParametersRow, dataset: PackedDataset) -> list[Cell]:
    published = (row.width, row.parameters)
    ours: tuple[int | None, ...] = (None, None)
    if row.model is not None:
        run = Run("zinc", row.model)
        width = fit_width(run.budget, lambda width: parameters_of(run, dataset, width))
        ours = (width, parameters_of(run, dataset, width))
    note = row.note if row.model is not None else QUOTED
    notes = (note if row.model is None else "", note)  # what there is to say is about the count
    return [
        Cell(row.row, column, _score(mine), _score(theirs), note=text)
        for column, mine, theirs, text in zip(_COLUMNS, ours, published, notes, strict=True)
    ]


def _score(number: int | None) -> Score | None:
    return None if number is None else Score(float(number))
