"""Split by whether an edge has an edge back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike, edge_chunks, edges_of, num_nodes_of
from graphprism.splitting.splits.split import Split


def by_direction() -> Split:
    """Splits one-way edges (0) from mutual ones (1), which have an edge back; a loop is mutual.

    Shapes: (E,) long

    >>> from graphprism.splitting import Graph
    >>> by_direction()(Graph(torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=3)).tolist()
    [1, 1, 0]
    """
    return ByDirection(2, ("one-way", "mutual"))


@dataclass(frozen=True, repr=False)
class ByDirection(Split):
    """The split that `by_direction` makes."""

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long."""
        edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
        forward = (edge_index[0] * num_nodes + edge_index[1]).sort().values
        found = []
        for source, target in edge_chunks(edge_index):
            back = target * num_nodes + source
            place = torch.searchsorted(forward, back).clamp_(max=max(forward.numel() - 1, 0))
            found.append(forward[place] == back)
        return torch.cat(found).long()

    def __repr__(self) -> str:
        return "by_direction()"
