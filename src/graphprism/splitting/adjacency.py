"""Neighbour lists, and the simple undirected graph under a directed multigraph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Neighbour lists of all nodes: those of node v are ``neighbor[start[v]:start[v + 1]]``."""

    start: Tensor
    neighbor: Tensor

    @classmethod
    def from_edges(cls, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Lists, for every node, the nodes that its edges lead to, once per edge."""
        source, order = edge_index[0].sort()
        start = source.new_zeros(num_nodes + 1)
        torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=start[1:])
        return cls(start, edge_index[1].index_select(0, order))

    def lists(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The lists of ``nodes`` end to end: (position in ``nodes``, neighbour), at a cost linear in their length."""
        first = self.start[nodes]
        length = self.start[nodes + 1] - first
        end, total = length.cumsum(0), int(length.sum())
        # The list of a position is the number of lists that end at or before it. `repeat_interleave` says the same but
        # wakes all threads for two short lists: 20 times as long on busy cores, where a search has many small rounds.
        owner = torch.bincount(end, minlength=total + 1)[:total].cumsum(0)
        place = torch.arange(total, device=nodes.device) + (first - end + length)[owner]
        return owner, self.neighbor[place]


def simple_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every pair of different nodes joined in some direction, once, as (smaller, larger), sorted: (2, M)."""
    if num_nodes == 0:
        return edge_index
    low, high = edge_index.amin(0), edge_index.amax(0)
    pair = torch.unique((low * num_nodes + high)[low != high])
    return torch.stack([pair.div(num_nodes, rounding_mode="floor"), pair % num_nodes])
