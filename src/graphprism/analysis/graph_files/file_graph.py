"""A graph as a file holds it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class FileGraph:
    """One graph, or several as one batch; what the file does not hold is None.

    Shapes: ``edge_index`` (2, E), ``x`` (N, F), ``edge_attr`` (E, D), ``edge_weight`` (E,), ``batch`` (N,)

    Attributes:
        edge_index: Source and target of each edge.
        num_nodes: Number of nodes.
        x: Features of the nodes.
        edge_attr: Features of the edges.
        edge_weight: Weight of each edge.
        batch: Number of the graph of each node, where the file holds several.
        labels: Name of each node in the file, where nodes are not numbered there.
        name: Name of the graph.
    """

    edge_index: Tensor
    num_nodes: int
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    batch: Tensor | None = None
    labels: tuple[str, ...] | None = None
    name: str = ""
