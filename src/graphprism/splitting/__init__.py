"""Splitting: from a graph to the relations of its edges.

An ordering gives one value per node, a split turns values, attributes or anything else into one relation per edge.

>>> by_order("degree") * by_attribute("edge_attr", num_relations=4)
by_order('degree') * by_attribute('edge_attr', num_relations=4)
"""

from graphprism.splitting import orderings
from graphprism.splitting.check_split import check_split
from graphprism.splitting.graph import Graph, GraphLike
from graphprism.splitting.orderings import ORDERINGS, Ordering, order_values, resolve_ordering
from graphprism.splitting.split import Split
from graphprism.splitting.splits import by_attribute, by_direction, by_function, by_order, by_soft_order, resolve_split

__all__ = [
    "ORDERINGS",
    "Graph",
    "GraphLike",
    "Ordering",
    "Split",
    "by_attribute",
    "by_direction",
    "by_function",
    "by_order",
    "by_soft_order",
    "check_split",
    "order_values",
    "orderings",
    "resolve_ordering",
    "resolve_split",
]
