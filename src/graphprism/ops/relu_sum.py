"""Messages that pass a ReLU before they are summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_same_device, check_shape
from graphprism.ops.backends import Backends, is_transformed
from graphprism.ops.entries import check_graph, entry_sum, pair_sum, trusted_index_sum

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj


def reference(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """The definition: sums rows of entries per (receiver, relation), one pair at a time; never optimised."""
    sums = [rows[adj.pair_dst == pair].sum(dim=0) for pair in range(adj.size[1] * adj.num_relations)]
    return torch.stack(sums) if sums else rows[:0]


def scatter(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """The same by ``index_add``."""
    return trusted_index_sum(rows, adj.pair_dst, adj.size[1] * adj.num_relations)


BACKENDS = Backends(automatic="csr", reference=reference, scatter=scatter, csr=pair_sum)


def relu_sum(h: Tensor, adj: PreparedGraph, edge_rows: Tensor | None = None, *, by_relation: bool = False) -> Tensor:
    r"""Sums messages after ReLU: :math:`\mathbf{y}_i = \sum_{e = (j, i)} w_e \max(0, \mathbf{h}_j + \mathbf{a}_e)`.

    With a three-dimensional ``h`` an entry reads its sender's row for its relation, :math:`\mathbf{h}_{j, r(e)}`.
    ``edge_rows`` are the :math:`\mathbf{a}_e`, zero if `None`. With soft types each entry of an edge has its own
    message, weighted by its score.

    Args:
        h: rows of senders.
        adj: the graph.
        edge_rows: a row for every edge.
        by_relation: whether messages are summed separately per relation.

    Shapes: ``h`` (N_src, F) or (N_src, R, F), ``edge_rows`` (E, F) -> (N_dst, F), by relation (N_dst, R, F)

    >>> from graphprism.ops import RelationalAdj
    >>> adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), num_nodes=3)
    >>> relu_sum(torch.tensor([[1.0], [-5.0], [0.0]]), adj, torch.tensor([[1.0], [2.0]]))[2].tolist()
    [2.0]
    """
    check_graph(adj)
    return adj.relu_sum(h, edge_rows, by_relation)


def dispatch_relu_sum(h: Tensor, adj: RelationalAdj, edge_rows: Tensor | None, by_relation: bool) -> Tensor:
    """`relu_sum` on a `RelationalAdj`."""
    rows = adj.at_senders(h)
    if edge_rows is not None:
        check_shape("edge_rows", edge_rows, [adj.num_edges, h.size(-1)])
        check_floating("edge_rows", edge_rows)
        check_same_device("edge_rows", edge_rows, "adj", adj.edge_index)
        added = edge_rows if adj.entry_edge is None else edge_rows.index_select(0, adj.entry_edge)
        # in place: gathered rows have no other reference and are not saved for backward
        rows = rows + added if is_transformed() or rows.dtype != added.dtype else rows.add_(added)
    rows = rows.relu() if is_transformed() else rows.relu_()
    if adj.weight is not None:
        rows = adj.weight[:, None].to(rows.dtype) * rows
    if not by_relation:
        return entry_sum(rows, adj)
    out: Tensor = BACKENDS.choose(None, rows.device)(rows, adj)
    return out.view(adj.size[1], adj.num_relations, rows.size(1))
