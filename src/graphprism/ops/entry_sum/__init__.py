"""Messages given one by one, summed at the receiver."""

from __future__ import annotations

from torch import Tensor

from graphprism._checks import check_same_device, check_shape
from graphprism.ops.choose import choose
from graphprism.ops.entry_sum import csr, reference, scatter
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import sum_entries

IMPLEMENTATIONS = {"reference": reference.entry_sum, "scatter": scatter.entry_sum, "csr": csr.entry_sum}


def entry_sum(rows: Tensor, adj: RelationalAdj | TableAdj, *, impl: str | None = None) -> Tensor:
    r"""Sums one row per entry at its receiver: :math:`\mathbf{y}_i = \sum_{k = (j, i)} \mathbf{m}_k`.

    The weights of ``adj`` are not used: the rows are taken as they are.

    Shapes: ``rows`` (K, F) -> (N_dst, F)
    """
    if isinstance(adj, TableAdj):
        return sum_entries(rows, adj)
    check_shape("rows", rows, [adj.src.numel(), "F"])
    check_same_device("rows", rows, "adj", adj.edge_index)
    out: Tensor = choose(IMPLEMENTATIONS, impl)(rows, adj)
    return out
