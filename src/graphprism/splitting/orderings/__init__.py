"""Orderings: pure functions from a graph to one value per node."""

from graphprism.splitting.orderings.bfs import bfs
from graphprism.splitting.orderings.core import core
from graphprism.splitting.orderings.degree import degree
from graphprism.splitting.orderings.eigenvector import eigenvector
from graphprism.splitting.orderings.features import features
from graphprism.splitting.orderings.ppr import ppr
from graphprism.splitting.orderings.random import random
from graphprism.splitting.orderings.resolve import ORDERINGS, Ordering, order_values, resolve_ordering
from graphprism.splitting.orderings.triangles import triangles

__all__ = [
    "ORDERINGS",
    "Ordering",
    "bfs",
    "core",
    "degree",
    "eigenvector",
    "features",
    "order_values",
    "ppr",
    "random",
    "resolve_ordering",
    "triangles",
]
