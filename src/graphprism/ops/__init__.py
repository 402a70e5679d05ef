"""Pure functions over relational graphs; every op has a readable reference beside its faster forms."""

from graphprism.ops.absolute_loss import absolute_loss
from graphprism.ops.adam_step import adam_step
from graphprism.ops.block_diagonal import Batches, BlockDiagonal
from graphprism.ops.csr_sum import csr_sum
from graphprism.ops.edge_norm import EDGE_NORMS, edge_norm
from graphprism.ops.edge_softmax import edge_softmax
from graphprism.ops.entry_rows import at_receivers, at_senders
from graphprism.ops.entry_sum import entry_sum
from graphprism.ops.index_sum import index_sum
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate import relational_aggregate
from graphprism.ops.relational_linear import relational_linear
from graphprism.ops.relational_stack import relational_stack
from graphprism.ops.relational_sum import relational_sum
from graphprism.ops.relational_transform import relational_transform
from graphprism.ops.run_linear import run_linear
from graphprism.ops.select_graphs import select_graphs
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.take_row import take_row
from graphprism.ops.type_rows import type_rows
from graphprism.ops.type_rows.type_sums import type_sums

__all__ = [
    "EDGE_NORMS",
    "Batches",
    "BlockDiagonal",
    "RelationalAdj",
    "TableAdj",
    "absolute_loss",
    "adam_step",
    "at_receivers",
    "at_senders",
    "csr_sum",
    "edge_norm",
    "edge_softmax",
    "entry_sum",
    "index_sum",
    "relational_aggregate",
    "relational_linear",
    "relational_stack",
    "relational_sum",
    "relational_transform",
    "run_linear",
    "select_graphs",
    "take_row",
    "type_rows",
    "type_sums",
]
