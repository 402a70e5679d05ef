"""Cases out of several parameters without their whole product.

A fault usually needs one value, or two that meet. `all_pairs` has every two values of two parameters in a case,
`in_turn` every value; where the long tests run, both are the whole product. `quick` chooses some of the values of one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

SLOW_VARIABLE = "GRAPHPRISM_SLOW_TESTS"
IS_SLOW = bool(os.environ.get(SLOW_VARIABLE))

Values = Mapping[str, Any] | Sequence[Any]


def quick(values: Sequence[Any], *chosen: Any) -> list[Any]:
    """All values for `pytest.mark.parametrize`, of which only the chosen ones are in the quick set."""
    assert all(value in values for value in chosen)
    return [value if value in chosen else pytest.param(value, marks=pytest.mark.slow) for value in values]


def all_pairs(**parameters: Values) -> pytest.MarkDecorator:
    """Marks a test with the fewest cases, nearly, in which any two values of two parameters meet.

    Parameters are lists of values, or values by their names in the report.
    """
    return _marked(parameters, _pairs([len(values) for values in parameters.values()]))


def in_turn(**parameters: Values) -> pytest.MarkDecorator:
    """Marks a test with as many cases as the longest parameter has values; the others take turns."""
    sizes = [len(values) for values in parameters.values()]
    return _marked(parameters, [[number % size for size in sizes] for number in range(max(sizes))])


def _marked(parameters: Mapping[str, Values], rows: list[list[int]]) -> pytest.MarkDecorator:
    columns = [
        [*values.items()] if isinstance(values, Mapping) else [(_name(value), value) for value in values]
        for values in parameters.values()
    ]
    if IS_SLOW:
        columns = [[*dict(column).items()] for column in columns]  # a value may have several turns
        rows = [list(row) for row in itertools.product(*(range(len(column)) for column in columns))]
    cases = []
    for row in rows:
        chosen = [column[number] for column, number in zip(columns, row, strict=True)]
        cases.append(pytest.param(*(value for _, value in chosen), id="-".join(name for name, _ in chosen)))
    return pytest.mark.parametrize(tuple(parameters), cases)


def _name(value: object) -> str:
    return str(value).removeprefix("torch.")


def _pairs(sizes: list[int]) -> list[list[int]]:
    """The product of the two longest; the others run through their values along both, and what is left comes last."""
    first, second, *others = sorted(range(len(sizes)), key=lambda column: -sizes[column])
    rows = []
    for i, j in itertools.product(range(sizes[first]), range(sizes[second])):
        row = [0] * len(sizes)
        row[first], row[second] = i, j
        for factor, column in enumerate(others, start=1):
            row[column] = (i + factor * j) % sizes[column]
        rows.append(row)
    for a, b in itertools.combinations(range(len(sizes)), 2):
        met = {(row[a], row[b]) for row in rows}
        for u, v in itertools.product(range(sizes[a]), range(sizes[b])):
            if (u, v) not in met:
                row = [(u + v) % size for size in sizes]
                row[a], row[b] = u, v
                rows.append(row)
    return rows
