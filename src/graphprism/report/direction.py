"""Which way a number of a table gets better."""

from __future__ import annotations

import re

from graphprism.results import TableResult

METRICS = {"ap": True, "accuracy": True, "mae": False, "ce": False, "ms": False}


def larger_is_better(table: TableResult, column: str) -> bool | None:
    """What the table says or, where its columns differ, what the metric in brackets behind the column's name means.

    >>> mixed = TableResult("t", "", "", ("GCN",), ("Test (AP)", "Test (MAE)", "Width"), (), larger_is_better=None)
    >>> [larger_is_better(mixed, column) for column in mixed.columns]
    [True, False, None]
    """
    if table.larger_is_better is not None:
        return table.larger_is_better
    metric = re.search(r"\(([^()]*)\)$", column)
    return METRICS.get(metric[1].lower()) if metric else None
