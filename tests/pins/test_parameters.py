"""Widths and numbers of parameters of all models within the budget."""

from graphprism.experiments import parameters_table
from tests.pins.pinned import as_json, differences, pinned


def measure():
    table = parameters_table()
    counts = {}
    for cell in table.cells:
        counts.setdefault(cell.row, {})[cell.column] = None if cell.ours is None else int(cell.ours.mean)
    return counts


def test_parameters_of_every_model():
    assert differences(as_json(measure()), pinned("parameters")) == []
