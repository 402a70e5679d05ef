"""PyG's loaders of nodes and links with our neighbour sampler; a batch can be divided among processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import NegativeSampling

from graphprism._checks import check_flag, check_positive, check_whole
from graphprism.loader.counter_random import mixed_key, permutation
from graphprism.loader.neighbor_sampler import NeighborSampler

_ORDER = 4  # random stream of an epoch's permutation; the sampler uses others


class SeedBatches(torch.utils.data.Sampler[list[int]]):
    """Batches of seed indices; yields of each batch the part of one process.

    Args:
        count: Number of seeds.
        batch_size: Seeds per batch, over all processes.
        shuffle: Whether to permute the seeds, as a function of ``seed`` and the epoch.
        drop_last: Whether to drop a smaller last batch.
        seed: Seed of the permutations.
        rank: Rank of this process.
        ranks: Number of processes.

    >>> [[len(part) for part in SeedBatches(10, 4, rank=rank, ranks=3)] for rank in range(3)]
    [[1, 1, 0], [1, 1, 1], [2, 2, 1]]
    """

    def __init__(
        self,
        count: int,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        check_positive("batch_size", batch_size)
        check_positive("ranks", ranks)
        for name, value in (("seed", seed), ("rank", rank)):
            check_whole(name, value)
        check_flag("shuffle", shuffle)
        check_flag("drop_last", drop_last)
        if rank >= ranks:
            raise ValueError(f"`rank` must be in [0, {ranks}), the number of processes, got {rank}")
        self.count, self.batch_size, self.shuffle, self.drop_last = count, batch_size, shuffle, drop_last
        self.seed, self.rank, self.ranks, self.epoch = seed, rank, ranks, 0

    def __len__(self) -> int:
        return self.count // self.batch_size if self.drop_last else -(-self.count // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        key = mixed_key(self.seed, self.epoch, _ORDER)
        order = permutation(key, self.count) if self.shuffle else torch.arange(self.count)
        batches = order.split(self.batch_size)[: len(self)]
        parts = (batch[slice(*part_of(batch.numel(), self.rank, self.ranks))] for batch in batches)
        return (part.tolist() for part in parts)


def part_of(count: int, rank: int, ranks: int) -> tuple[int, int]:
    """Begin and end of the part of one process in ``count`` items.

    >>> [part_of(10, rank, 4) for rank in range(4)]
    [(0, 2), (2, 5), (5, 7), (7, 10)]
    """
    return count * rank // ranks, count * (rank + 1) // ranks


class _Epochs:
    """Base of both loaders: every pass is an epoch, whose number seeds its permutation and its samples."""

    sampler_of_neighbors: NeighborSampler
    batches: SeedBatches | None

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass; later passes increment it."""
        check_whole("epoch", epoch)
        self.next_epoch = epoch

    def __iter__(self) -> Any:
        self.sampler_of_neighbors.set_epoch(self.next_epoch)
        if self.batches is not None:
            self.batches.epoch = self.next_epoch
        self.next_epoch += 1
        return super().__iter__()  # type: ignore[misc]


def _order_options(count: int, seed: int, rank: int, ranks: int, options: dict[str, Any]) -> SeedBatches | None:
    """Replaces the batching options of a ``DataLoader`` by `SeedBatches`; a sampler of the caller is kept."""
    if options.get("sampler") is not None or options.get("batch_sampler") is not None:
        if ranks > 1:
            raise ValueError(f"`sampler` must be None on {ranks} processes, which share the batches of a seed, got one")
        return None
    batches = SeedBatches(
        count,
        options.pop("batch_size", 1),
        shuffle=options.pop("shuffle", False),
        drop_last=options.pop("drop_last", False),
        seed=seed,
        rank=rank,
        ranks=ranks,
    )
    options["batch_sampler"] = batches
    return batches


class NeighborLoader(_Epochs, NodeLoader):  # type: ignore[misc]  # torch_geometric has no types
    """PyG's ``NodeLoader`` with `NeighborSampler`: batches of nodes with sampled neighbours.

    Every batch is a ``Data`` whose first ``batch_size`` nodes are the seeds, with all attributes of nodes and edges,
    ``n_id``, ``e_id``, ``input_id``, ``num_sampled_nodes`` and ``num_sampled_edges``. Each pass is an epoch, whose
    samples depend on the seed and the epoch number only, see `set_epoch`.

    Args:
        data: a ``Data``; apply `SplitEdges`, and `RelationalNorm` for GCN, to it before.
        num_neighbors: neighbours of each node, a number for every hop; -1 takes all of them.
        input_nodes: seed nodes, as numbers or a mask; all nodes by default.
        direction: ends of edges that are sampled, see `NeighborSampler`.
        replace: whether an edge may be sampled more than once.
        disjoint: whether every seed has nodes of its own.
        subgraph_type: ``"directional"``, ``"bidirectional"`` or ``"induced"``.
        unbiased: whether to multiply ``edge_weight`` by (edges of the receiver) / (sampled edges): the expected value
            of a weighted sum over neighbours (GCN) is then the sum over the whole graph. A layer with means needs none.
        seed: seed of permutations and sampled neighbours.
        rank: rank of this process. A batch is divided among processes, with the samples of a single process.
        ranks: number of processes.
        transform: a function of a batch.
        kwargs: of PyG's ``NodeLoader`` and PyTorch's ``DataLoader``: ``batch_size`` (seeds of all processes together),
            ``shuffle``, ``num_workers``, ``filter_per_worker``, ...

    Example:
        >>> from graphprism.transforms import SplitEdges
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = SplitEdges("degree")(Data(x=torch.eye(4), edge_index=path))
        >>> loader = NeighborLoader(data, [-1], torch.tensor([0, 3]), batch_size=2)
        >>> batch = next(iter(loader))
        >>> batch.n_id.tolist(), batch.edge_type.tolist(), batch.batch_size
        ([0, 3, 1, 2], [1, 1], 2)
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        input_nodes: Tensor | None = None,
        *,
        direction: str = "in",
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: str = "directional",
        unbiased: bool = False,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        transform: Callable[[Data], Data] | None = None,
        **kwargs: Any,
    ) -> None:
        sampler = NeighborSampler(
            data,
            num_neighbors,
            direction=direction,
            replace=replace,
            disjoint=disjoint,
            subgraph_type=subgraph_type,
            seed=seed,
        )
        if unbiased:
            transform = _Unbiased(sampler, data, transform)
        self.sampler_of_neighbors, self.next_epoch = sampler, 0
        count = _count_of(input_nodes, data)
        self.batches = _order_options(count, seed, rank, ranks, kwargs)
        super().__init__(data, node_sampler=sampler, input_nodes=input_nodes, transform=transform, **kwargs)


class LinkNeighborLoader(_Epochs, LinkLoader):  # type: ignore[misc]  # torch_geometric has no types
    """PyG's ``LinkLoader`` with `NeighborSampler`: batches of links with the sampled neighbours of their ends.

    Negative links depend on seed, epoch and the index of a link only, not on the process. Split the graph of training
    edges only.

    Args:
        data: a ``Data``; apply `SplitEdges`, and `RelationalNorm` for GCN, to it before.
        num_neighbors: neighbours of each node, a number for every hop; -1 takes all of them.
        edge_label_index: (2, L) links; all edges by default.
        edge_label: (L,) labels of the links.
        neg_sampling: None, or PyG's ``NegativeSampling`` or the name of a mode, ``"binary"`` or ``"triplet"``.
        direction: ends of edges that are sampled, see `NeighborSampler`.
        replace: whether an edge may be sampled more than once.
        disjoint: whether every end of a link has nodes of its own.
        subgraph_type: ``"directional"``, ``"bidirectional"`` or ``"induced"``.
        seed: seed of permutations, negative links and sampled neighbours.
        rank: rank of this process.
        ranks: number of processes.
        kwargs: of PyG's ``LinkLoader`` and PyTorch's ``DataLoader``.
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        edge_label_index: Tensor | None = None,
        *,
        edge_label: Tensor | None = None,
        neg_sampling: NegativeSampling | str | None = None,
        direction: str = "in",
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: str = "directional",
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        **kwargs: Any,
    ) -> None:
        sampler = NeighborSampler(
            data,
            num_neighbors,
            direction=direction,
            replace=replace,
            disjoint=disjoint,
            subgraph_type=subgraph_type,
            seed=seed,
        )
        self.sampler_of_neighbors, self.next_epoch = sampler, 0
        count = int(data.num_edges) if edge_label_index is None else edge_label_index.size(1)
        self.batches = _order_options(count, seed, rank, ranks, kwargs)
        super().__init__(
            data,
            link_sampler=sampler,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
            neg_sampling=neg_sampling,
            **kwargs,
        )


class _Unbiased:
    """Scales weights of sampled edges, then calls the user's transform; a class, so that workers can pickle it."""

    def __init__(self, sampler: NeighborSampler, data: Data, then: Callable[[Data], Data] | None) -> None:
        if sampler.direction != "in" or data.get("edge_weight") is None:
            came = sampler.direction if sampler.direction != "in" else "no `edge_weight`"
            must = '`unbiased` must come with `direction="in"` and the `edge_weight` of `RelationalNorm`'
            raise ValueError(f"{must}, got {came}")
        self.sampler, self.then = sampler, then

    def __call__(self, batch: Data) -> Data:
        target = batch.edge_index[1]
        sampled = torch.bincount(target, minlength=batch.n_id.numel())
        share = self.sampler.in_degree(batch.n_id) / sampled.clamp(min=1)
        batch.edge_weight = batch.edge_weight * share.to(batch.edge_weight.dtype)[target]
        return batch if self.then is None else self.then(batch)


def _count_of(input_nodes: Tensor | None, data: Data) -> int:
    if input_nodes is None:
        return int(data.num_nodes or 0)
    if not isinstance(input_nodes, Tensor):
        raise TypeError(f"`input_nodes` must be None or a tensor, got {type(input_nodes).__name__}")
    return int(input_nodes.sum()) if input_nodes.dtype == torch.bool else input_nodes.numel()
