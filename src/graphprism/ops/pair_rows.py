r"""Products for active pairs (node, relation) only: the cost grows with the number of entries, not with N * R.

A *pair* is a node and a relation; it is active if the node has an entry in that relation. There are at most as many
active pairs as entries, however many relations there are. Their rows are sorted by relation, so that
:math:`\mathbf{W}_r^\top \mathbf{x}_j` of all active pairs is a few batched products. A graph of one relation with
these rows as senders then replaces the graph of R relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphprism.ops.aggregate import relational_aggregate, sum_csr
from graphprism.ops.backends import is_transformed
from graphprism.ops.linear_csr import relational_transform

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj

# Thresholds above which active pairs alone are faster: pairs (node, relation) per entry, and number of pairs. CPU time
# on one core, 10^4 nodes, 10^5 edges, 16 channels, forward and backward, all pairs and active pairs: GCN 11 and 18 ms
# at 2 pairs per entry, 17 and 12 ms at 4, 42 and 12 ms at 8; GAT 70 and 31, 117 and 44, 377 and 47 ms. Sorting the
# pairs, once per graph, takes another 20 to 30 ms. With 8,000 pairs: GAT 1.8 and 1.8 ms.
_PAIRS_PER_ENTRY = 4
_FEWEST_PAIRS = 1 << 14
# Sizes (numbers of pairs) that relations are padded to, so that all relations of one size are one batched product:
# 1, 2, 3, 4, 6, 8, 12, ... Padding adds less than half, and 10^6 pairs make at most 40 products.
_SIZES = sorted({1, *(2**k for k in range(1, 62)), *(3 * 2**k for k in range(60))})


def active_pairs_pay(adj: RelationalAdj) -> bool:
    """Whether to compute rows of active pairs only: there are many relations per entry.

    Depends on sizes only. Under `torch.compile` and `torch.func` all pairs are kept: the number of active ones depends
    on values.
    """
    # first, as a comparison of sizes would be a guard on them, which `torch.export` with dynamic shapes refuses
    if adj.num_relations == 1 or torch.compiler.is_compiling():
        return False
    pairs = max(adj.size) * adj.num_relations
    if pairs < _FEWEST_PAIRS or is_transformed():
        return False
    return pairs > _PAIRS_PER_ENTRY * adj.src.numel()


def sender_rows(
    x: Tensor, adj: PreparedGraph, weight: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, PreparedGraph]:
    """Transformed rows of the senders and the graph over these rows, for `at_senders` and `relational_sum`.

    Either every sender has a row for each relation, (N_src, R, F_out), and the graph is ``adj``; or only active pairs
    have one, (P, 1, F_out), and the graph has these P rows as senders.

    Shapes: ``x`` (N_src, F_in), ``weight`` (R, F_in, F_out), ``bias`` (R, F_out)
    """
    from graphprism.ops.relational_adj import RelationalAdj  # which imports this

    if isinstance(adj, RelationalAdj) and active_pairs_pay(adj):
        pairs = adj.sender_pairs
        h = pairs.transform(x, weight)
        if bias is not None:
            h = h + bias.index_select(0, pairs.relation_row)
        return h[:, None], adj.sender_graph
    h = relational_transform(x, weight)
    return h if bias is None else h + bias, adj


def receiver_products(x: Tensor, adj: PreparedGraph, weight: Tensor) -> Tensor:
    r"""Computes :math:`\mathbf{W}_{r(k)}^\top \mathbf{x}_i` for the receiver :math:`i` of every entry :math:`k`.

    Shapes: ``x`` (N_dst, F_in), ``weight`` (R, F_in, F_out) -> (K, F_out)
    """
    from graphprism.ops.relational_adj import RelationalAdj  # which imports this

    if isinstance(adj, RelationalAdj) and active_pairs_pay(adj):
        return adj.receiver_pairs.transform(x, weight).index_select(0, adj.receiver_pairs.entry_row)
    return adj.at_receivers(relational_transform(x, weight))


def pair_linear(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """The ``pairs`` backend of `relational_linear`: rows of active pairs (sender, relation), summed at the receiver."""
    rows = adj.sender_pairs.transform(x, weight)
    return sum_csr(rows[:, None], adj.sender_graph, adj.weight)


@dataclass(frozen=True)
class PairRows:
    """One row per active pair, for senders or for receivers; rows are sorted by relation.

    Relations are padded to common sizes; a padding row repeats a node of the relation and belongs to no entry.

    Attributes:
        relation: (S,) the relations that occur, those of few pairs first.
        relation_row: (P,) the relation of every row.
        entry_row: (K,) the row of every entry.
        groups: (number of relations, rows of each) for every size, in the order of the rows.
        nodes: graph from nodes to rows, an entry for each row.
    """

    relation: Tensor
    relation_row: Tensor
    entry_row: Tensor
    groups: tuple[tuple[int, int], ...]
    nodes: RelationalAdj

    @staticmethod
    def build(node: Tensor, relation: Tensor, num_nodes: int) -> PairRows:
        """Sorts the pairs of all entries; a host-device sync, hence done once per graph."""
        from graphprism.ops.relational_adj import RelationalAdj  # which imports this

        pair, entry_pair = torch.unique(relation.long() * max(1, num_nodes) + node, return_inverse=True)
        found, pair_relation, count = torch.unique_consecutive(
            pair // max(1, num_nodes), return_inverse=True, return_counts=True
        )
        sizes = torch.tensor(_SIZES, device=pair.device)
        size_of = torch.bucketize(count, sizes)
        size_of, order = torch.sort(size_of, stable=True)
        width = sizes[size_of]
        begin = torch.empty_like(width)
        begin[order] = width.cumsum(0) - width
        place = torch.arange(pair.numel(), device=pair.device)
        first_pair = count.cumsum(0) - count
        row = begin[pair_relation] + place - first_pair[pair_relation]
        pair_node = pair % max(1, num_nodes)
        row_node = torch.repeat_interleave(pair_node[first_pair[order]], width)
        row_node[row] = pair_node
        rows = torch.arange(row_node.numel(), device=pair.device)
        size_of, many = torch.unique_consecutive(size_of, return_counts=True)
        return PairRows(
            relation=found[order],
            relation_row=torch.repeat_interleave(found[order], width),
            entry_row=row[entry_pair],
            groups=tuple(zip(many.tolist(), sizes[size_of].tolist(), strict=True)),
            nodes=RelationalAdj(torch.stack([row_node, rows]), num_nodes=(num_nodes, rows.numel())),
        )

    def transform(self, x: Tensor, weight: Tensor) -> Tensor:
        r"""Computes :math:`\mathbf{W}_r^\top \mathbf{x}_j` for the pair :math:`(j, r)` of every row.

        Shapes: ``x`` (N, F_in), ``weight`` (R, F_in, F_out) -> (P, F_out)
        """
        # an aggregation with one entry per row instead of a gather: its gradient is a sum over sorted rows
        rows = relational_aggregate(x, self.nodes)[:, 0]
        if not self.groups:
            return rows @ weight.sum(dim=0)  # no rows, but a zero gradient for the weights
        parts = zip(
            rows.split([many * size for many, size in self.groups]),
            weight.index_select(0, self.relation).split([many for many, _ in self.groups]),
            self.groups,
            strict=True,
        )
        return torch.cat([torch.bmm(part.view(*group, -1), matrices).flatten(0, 1) for part, matrices, group in parts])
