"""What is known about one relation of a split."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RelationCertificate:
    """Figures of one relation, over all graphs that were certified.

    Attributes:
        name: Name of the relation.
        num_edges: Number of its edges; with a soft split every edge with a score other than 0 counts.
        acyclic: True if no graph has a cycle of its edges.
        acyclic_graphs: Number of graphs without such a cycle.
        cycle: Nodes of one cycle in order, numbered within their graph; empty if there is none. A loop is a cycle of
            one.
        cycle_graph: Number of the graph of that cycle.
        num_roots: Number of nodes that no edge of the relation enters.
        num_sources: Number of those that an edge of the relation leaves.
        ergodic: True if every graph is strongly connected and aperiodic under the relation.
        ergodic_graphs: Number of graphs that are.
    """

    name: str
    num_edges: int
    acyclic: bool
    acyclic_graphs: int
    cycle: tuple[int, ...]
    cycle_graph: int | None
    num_roots: int
    num_sources: int
    ergodic: bool
    ergodic_graphs: int
