"""Trims a sampled batch layer by layer to the nodes and edges that its seed nodes depend on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from torch import Tensor

from graphprism.ops import RelationalAdj


class SampledHops:
    """Numbers of nodes and edges around the seed nodes of a batch, which a neighbour sampler sorts by hop.

    Args:
        num_nodes: new nodes of hop 0 (the seed nodes), 1, ...
        num_edges: new edges of hop 1, 2, ...
        num_layers: number of layers, each of which needs a hop.

    Attributes:
        num_seeds: number of seed nodes.

    >>> SampledHops([2, 3, 4], [5, 6], 2).num_seeds
    2
    """

    def __init__(self, num_nodes: Sequence[int] | None, num_edges: Sequence[int] | None, num_layers: int) -> None:
        if num_nodes is None or num_edges is None or not num_layers < len(num_nodes) == len(num_edges) + 1:
            must = f"must come together, for {num_layers} hops or more, one for each layer"
            came = f"{num_nodes} and {num_edges}"
            raise ValueError(f"`num_sampled_nodes_per_hop` and `num_sampled_edges_per_hop` {must}, got {came}")
        self._nodes, self._edges = list(accumulate(num_nodes)), list(accumulate(num_edges))
        self.num_seeds = self._nodes[0]

    def within(self, hops: int, h: Tensor, e: Tensor | None, graph: Any) -> tuple[Tensor, Tensor | None, Any]:
        """States of nodes and edges, and the graph, within a number of hops of the seed nodes, at least one."""
        num_nodes, num_edges = self._nodes[hops], self._edges[hops - 1]
        if isinstance(graph, RelationalAdj) and graph.size[0] > num_nodes:
            ends, size = graph.edge_index[:, :num_edges], (num_nodes, num_nodes)
            types, weight = (
                None if each is None else each[:num_edges] for each in (graph.edge_type, graph.edge_weight)
            )
            graph = RelationalAdj.in_forward(ends, types, weight, graph.num_relations, size)
        elif isinstance(graph, tuple):
            graph = tuple(each[..., :num_edges] for each in graph)
        return h[:num_nodes], None if e is None else e[:num_edges], graph
