"""Pure functions over relational graphs; every op has a readable reference beside its faster backends."""

from graphprism.ops.aggregate import relational_aggregate, relational_sum
from graphprism.ops.coefficients import Coefficients
from graphprism.ops.edge_norm import EDGE_NORMS, edge_norm
from graphprism.ops.edge_softmax import edge_softmax
from graphprism.ops.entries import at_receivers, at_senders, entry_sum, index_sum
from graphprism.ops.linear import relational_linear
from graphprism.ops.linear_csr import relational_transform
from graphprism.ops.prepared_graph import PreparedGraph
from graphprism.ops.relational_adj import RelationalAdj

__all__ = [
    "EDGE_NORMS",
    "Coefficients",
    "PreparedGraph",
    "RelationalAdj",
    "at_receivers",
    "at_senders",
    "edge_norm",
    "edge_softmax",
    "entry_sum",
    "index_sum",
    "relational_aggregate",
    "relational_linear",
    "relational_sum",
    "relational_transform",
]
