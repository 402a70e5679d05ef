"""Splits: functions from a graph to the relation of each of its edges."""

from graphprism.splitting.splits.by_attribute import by_attribute
from graphprism.splitting.splits.by_direction import by_direction
from graphprism.splitting.splits.by_function import by_function
from graphprism.splitting.splits.by_order import by_order
from graphprism.splitting.splits.by_soft_order import by_soft_order
from graphprism.splitting.splits.resolve import resolve_split
from graphprism.splitting.splits.split import Split

__all__ = [
    "Split",
    "by_attribute",
    "by_direction",
    "by_function",
    "by_order",
    "by_soft_order",
    "resolve_split",
]
