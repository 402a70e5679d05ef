"""A batch of graphs, ready for a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from graphprism.ops import RelationalAdj, TableAdj


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """The graphs of a step that this process works on.

    Attributes:
        x: (N, F) features or types of the nodes.
        adj: The edges, with relations and coefficients.
        owner: (N,) the graph of each node.
        ptr: (B + 1,) where the nodes of each graph begin.
        y: Targets, one row per graph.
        edge_attr: (E, D) types of the edges, for networks that take them.
        pe: (N, K) positional features, for networks that take them.
        rows: Where its graphs stand in the order asked for.
        total: Number of graphs of the step, those of other processes included.
    """

    x: Tensor
    adj: RelationalAdj | TableAdj
    owner: Tensor
    ptr: Tensor
    y: Tensor
    edge_attr: Tensor | None
    pe: Tensor | None
    rows: slice
    total: int

    @property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        return {
            "x": self.x,
            "edge_index": self.adj,
            "edge_attr": self.edge_attr,
            "batch": self.owner,
            "pe": self.pe,
        }
