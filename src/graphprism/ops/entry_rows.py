"""Rows of nodes, read for every entry of a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import read_senders


def at_senders(h: Tensor, adj: RelationalAdj | TableAdj) -> Tensor:
    """What the sending node holds for the relation of the entry: (N, R, ...) -> (K, ...); for all, (N, F) -> (K, F)."""
    if isinstance(adj, TableAdj):
        return read_senders(h, adj)
    return h[adj.src] if h.dim() == 2 else h.flatten(0, 1)[adj.pair_src]


def at_receivers(h: Tensor, adj: RelationalAdj | TableAdj) -> Tensor:
    """The same of the receiving node."""
    if not isinstance(adj, TableAdj):
        return h[adj.dst] if h.dim() == 2 else h.flatten(0, 1)[adj.pair_dst]
    if h.dim() == 2:
        return h[:, None].expand(-1, adj.num_slots, -1).flatten(0, 1)
    slots = [adj.entry_relation[:, slot, None] for slot in range(adj.num_slots)]
    flat = h.flatten(2)  # (N, R, F): a choice among few relations needs no index, and so no index in the gradient
    parts = [
        torch.stack([torch.where(slot == r, flat[:, r], 0) for r in range(flat.size(1))]).sum(dim=0) for slot in slots
    ]
    return torch.stack(parts, dim=1).view(h.size(0) * adj.num_slots, *h.shape[2:])
