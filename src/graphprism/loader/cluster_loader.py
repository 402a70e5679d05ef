"""Batches of clusters: parts of a graph with few edges between them, with their relations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.utils import coalesce

from graphprism._checks import check_integer, check_positive, check_range, check_shape
from graphprism._extras import needs_extra
from graphprism.loader.loaders import SeedBatches
from graphprism.loader.neighbor_sampler import Adjacency, NeighborSampler


def partition(edge_index: Tensor, num_nodes: int, num_parts: int, *, seed: int = 0) -> Tensor:
    """Partition by METIS: the part of every node, with parts of nearly equal size and few edges between them.

    Needs pymetis, which the extra ``full`` installs. Directions, self-loops and repeated edges do not count.

    Shapes: ``edge_index`` (2, E) -> (N,) integers in [0, ``num_parts``)
    """
    with needs_extra("a partition by METIS"):
        import pymetis

    check_positive("num_parts", num_parts)
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    check_range("edge_index", edge_index, num_nodes)
    edges = edge_index.long().cpu()
    edges = edges[:, edges[0] != edges[1]]
    edges = coalesce(torch.cat([edges, edges.flip(0)], dim=1), num_nodes=num_nodes)
    if num_parts == 1 or not edges.size(1):  # METIS would divide by zero
        return torch.arange(num_nodes) % num_parts
    adjacency = Adjacency.build(edges[0], edges[1], num_nodes)
    graph = pymetis.CSRAdjacency(adjacency.ptr.numpy(), adjacency.other.numpy())
    found = pymetis.part_graph(num_parts, graph, recursive=False, options=pymetis.Options(seed=seed))
    return torch.tensor(found[1])


class ClusterLoader(torch.utils.data.DataLoader[Data]):
    """Batches of several clusters, with all edges between their nodes and the relations of these (Cluster-GCN).

    Every node is in one cluster, so that an epoch visits every node once; edges between clusters of different batches
    are dropped. ``edge_type`` and ``edge_weight`` are those of the whole graph.

    Args:
        data: a ``Data``; apply `SplitEdges`, and `RelationalNorm` for GCN, to it before.
        num_parts: number of clusters.
        parts: (N,) the cluster of every node; METIS finds them by default.
        batch_size: clusters per batch, over all processes.
        shuffle: whether to permute the clusters, as a function of ``seed`` and the epoch.
        seed: seed of METIS and the permutations.
        rank: rank of this process.
        ranks: number of processes.
        kwargs: of PyTorch's ``DataLoader``, such as ``num_workers``.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> loader = ClusterLoader(path, 2, torch.tensor([0, 0, 1, 1]))
        >>> [(batch.n_id.tolist(), batch.e_id.tolist()) for batch in loader]
        [([0, 1], [0]), ([2, 3], [2])]
    """

    def __init__(
        self,
        data: Data,
        num_parts: int,
        parts: Tensor | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        **kwargs: Any,
    ) -> None:
        check_positive("num_parts", num_parts)
        sampler = NeighborSampler(data, [0], subgraph_type="induced")
        if parts is None:
            parts = partition(data.edge_index, sampler.num_nodes, num_parts, seed=seed)
        check_shape("parts", parts, [sampler.num_nodes])
        check_integer("parts", parts)
        check_range("parts", parts, num_parts)
        self.parts = parts
        self.clusters = Adjacency.build(parts.long().cpu(), torch.arange(sampler.num_nodes), num_parts)
        self.batches = SeedBatches(num_parts, batch_size, shuffle=shuffle, seed=seed, rank=rank, ranks=ranks)
        self.next_epoch = 0
        self._nodes = NodeLoader(data, sampler)
        super().__init__(
            range(num_parts),  # type: ignore[arg-type]
            batch_sampler=self.batches,
            collate_fn=self.collate,
            **kwargs,
        )

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, which seeds its permutation; later passes increment it."""
        self.next_epoch = epoch

    def __iter__(self) -> Any:
        self.batches.epoch = self.next_epoch
        self.next_epoch += 1
        return super().__iter__()

    def collate(self, clusters: list[int]) -> Data:
        """The subgraph of the given clusters."""
        chosen = torch.tensor(clusters, dtype=torch.long)
        count = self.clusters.degree(chosen)
        nodes = [self.clusters.other[self.clusters.ptr[each] : self.clusters.ptr[each + 1]] for each in clusters]
        batch: Data = self._nodes(torch.cat([count.new_zeros(0), *nodes]).long())
        batch.cluster = chosen.repeat_interleave(count)
        return batch

    @property
    def kept_edges(self) -> float:
        """Share of edges within clusters: the edges kept by batches of one cluster."""
        source, target = self.parts.to(self._nodes.data.edge_index.device)[self._nodes.data.edge_index]
        return float((source == target).double().mean()) if source.numel() else 1.0
