"""The certificate of one relation."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graphprism.analysis.certificate._adjacency import Integers, adjacency
from graphprism.analysis.certificate.ergodic_graphs import ergodic_among
from graphprism.analysis.certificate.find_cycle import cycle_among, nodes_after_peeling
from graphprism.analysis.certificate.relation_certificate import RelationCertificate


def certify_relation(
    name: str, edge_index: Tensor, num_nodes: int, batch: Tensor, num_graphs: int
) -> RelationCertificate:
    """Certifies the edges of one relation on a batch of graphs, in time linear in nodes and edges but for one sort.

    Shapes: ``edge_index`` (2, E) of this relation alone, ``batch`` (N,)
    """
    source, target = edge_index.numpy()
    graph, graph_of_node = adjacency(source, target, num_nodes), batch.numpy()
    remaining = nodes_after_peeling(graph)
    cycle = cycle_among(graph, remaining)
    cyclic = np.unique(graph_of_node[remaining]).size
    # A graph without cycles cannot be ergodic: an acyclic relation, the usual case, needs no second look.
    ergodic = int(ergodic_among(graph, graph_of_node, num_graphs).sum()) if cycle else 0
    entered = np.bincount(target, minlength=num_nodes) > 0
    return RelationCertificate(
        name=name,
        num_edges=int(source.size),
        acyclic=not cycle,
        acyclic_graphs=num_graphs - cyclic,
        cycle=tuple(numbers_within_graph(np.array(cycle, np.int64), graph_of_node)),
        cycle_graph=int(graph_of_node[cycle[0]]) if cycle else None,
        num_roots=int(np.count_nonzero(~entered)),
        num_sources=int(np.count_nonzero(~entered & (np.diff(graph.pointer) > 0))),
        ergodic=ergodic == num_graphs,
        ergodic_graphs=ergodic,
    )


def numbers_within_graph(nodes: Integers, batch: Integers) -> list[int]:
    """Numbers of ``nodes``, all of one graph, counted among the nodes of that graph."""
    if nodes.size == 0:
        return []
    numbers: list[int] = (np.cumsum(batch == batch[nodes[0]]) - 1)[nodes].tolist()
    return numbers
