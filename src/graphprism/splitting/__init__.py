"""Splitting: from a graph to the relations of its edges.

An ordering gives one value per node. A split gives one relation per edge, from orderings, attributes or any function.

>>> by_order("degree") * by_attribute("edge_attr", num_relations=4)
by_order('degree') * by_attribute('edge_attr', num_relations=4)
>>> parse_split("degree * attr(edge_attr, 4)")
by_order('degree') * by_attribute('edge_attr', num_relations=4)
"""

from graphprism.splitting import orderings
from graphprism.splitting.check_split import check_split
from graphprism.splitting.edge_values import by_community, by_curvature, by_similarity
from graphprism.splitting.expression import SplitSyntaxError, parse_split, parse_splits, resolve_split, split_text
from graphprism.splitting.graph import Graph, GraphLike
from graphprism.splitting.orderings import ORDERINGS, Ordering, order_values, register_ordering, resolve_ordering
from graphprism.splitting.split import Split, only
from graphprism.splitting.splits import by_attribute, by_direction, by_function, by_order, by_soft_order

__all__ = [
    "ORDERINGS",
    "Graph",
    "GraphLike",
    "Ordering",
    "Split",
    "SplitSyntaxError",
    "by_attribute",
    "by_community",
    "by_curvature",
    "by_direction",
    "by_function",
    "by_order",
    "by_similarity",
    "by_soft_order",
    "check_split",
    "only",
    "order_values",
    "orderings",
    "parse_split",
    "parse_splits",
    "register_ordering",
    "resolve_ordering",
    "resolve_split",
    "split_text",
]
