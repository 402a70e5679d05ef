"""A neighbour sampler for PyG's loaders, in pure PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import BaseSampler, EdgeSamplerInput, NegativeSampling, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.base import SubgraphType

from graphprism._checks import (
    check_choice,
    check_flag,
    check_homogeneous,
    check_integer,
    check_range,
    check_shape,
    check_whole,
)
from graphprism.loader.counter_random import below, mix, mixed_key
from graphprism.splitting import check_split

DIRECTIONS = ("in", "out", "both")
# Random streams: equal counters must not give equal numbers for different purposes.
_IN, _OUT, _NEGATIVE = 1, 2, 3


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The edges of every node in CSR: node ``i`` owns entries ``ptr[i]`` to ``ptr[i + 1]``.

    Attributes:
        ptr: (N + 1,) first entry of each node.
        other: (E,) the other end of each edge.
        edge: (E,) its index in the graph; None if the edges are sorted already.
    """

    ptr: Tensor
    other: Tensor
    edge: Tensor | None

    @staticmethod
    def build(own: Tensor, other: Tensor, num_nodes: int) -> Adjacency:
        """Sorts edges by one of their ends (stable)."""
        ptr = torch.zeros(num_nodes + 1, dtype=torch.long, device=own.device)
        ptr[1:] = torch.bincount(own, minlength=num_nodes).cumsum(0)
        # int32 if it fits: half the memory and bandwidth
        narrow = torch.int32 if max(num_nodes, own.numel()) < 2**31 else torch.int64
        if bool((own[1:] >= own[:-1]).all()):
            return Adjacency(ptr, other.to(narrow), None)
        order = own.sort(stable=True).indices
        return Adjacency(ptr, other.index_select(0, order).to(narrow), order.to(narrow))

    def degree(self, node: Tensor) -> Tensor:
        """Number of edges at these nodes."""
        return self.ptr.index_select(0, node + 1) - self.ptr.index_select(0, node)

    def entries(self, node: Tensor, count: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Other ends and indices of edges, (M,): ``count`` of each node, at ``position`` (M,) among its edges."""
        first = self.ptr.index_select(0, node).repeat_interleave(count, output_size=position.numel())
        entry = first.add_(position)
        edge = entry if self.edge is None else self.edge.index_select(0, entry).long()
        return self.other.index_select(0, entry).long(), edge


def draw_positions(key: Tensor, degree: Tensor, count: int, replace: bool) -> tuple[Tensor, Tensor]:
    """Chooses ``count`` of ``degree`` items for every row; all if there are no more, or if ``count`` is -1.

    Without replacement every subset is equally likely (Floyd's algorithm: one step per choice, whatever the degree).

    Args:
        key: (n,) random bits.
        degree: (n,) number of items to choose from.
        count: Number of items to choose.
        replace: Whether an item may be chosen more than once.

    Returns:
        (n,) numbers of chosen items, and (M,) their indices in [0, degree), concatenated over rows.
    """
    if count < 0:
        return degree, _ranges(degree)
    if replace:
        taken = torch.where(degree > 0, count, 0)
        rows = (degree > 0).nonzero().view(-1)
        bits = mix(key.index_select(0, rows)[:, None], torch.arange(count, device=key.device))
        return taken, below(bits, degree.index_select(0, rows)[:, None]).view(-1)
    taken = degree.clamp(max=count)
    is_larger = degree > count if count else torch.zeros_like(degree, dtype=torch.bool)
    rows = is_larger.nonzero().view(-1)
    position = _ranges(taken)
    if rows.numel():
        chosen = _subsets(key.index_select(0, rows), degree.index_select(0, rows), count)
        of_larger = is_larger.repeat_interleave(taken, output_size=position.numel())
        position[of_larger] = chosen.t().reshape(-1)
    return taken, position


def _subsets(key: Tensor, degree: Tensor, count: int) -> Tensor:
    """Subsets of ``count`` < ``degree`` numbers in [0, degree), as (count, n)."""
    bits = mix(key, torch.arange(count, device=key.device)[:, None])
    chosen = torch.empty(count, key.numel(), dtype=torch.long, device=key.device)
    for step in range(count):
        last = degree - (count - step)  # the largest number of this step
        drawn = below(bits[step], last + 1)
        chosen[step] = torch.where((chosen[:step] == drawn).any(0), last, drawn)
    return chosen


def _ranges(count: Tensor) -> Tensor:
    """0, 1, ..., count - 1 for every row, concatenated."""
    end = count.cumsum(0)
    total = int(end[-1]) if count.numel() else 0
    return torch.arange(total, device=count.device) - (end - count).repeat_interleave(count, output_size=total)


class _Numbers:
    """Numbering of the sampled nodes of a batch, in the order of discovery.

    Attributes:
        nodes: New nodes of each hop, the seeds first.
        owners: Indices of their seeds; None if seeds share nodes.
        count: Number of nodes so far.
    """

    nodes: list[Tensor]
    owners: list[Tensor] | None
    count: int

    def find(self, node: Tensor, owner: Tensor | None) -> Tensor:
        """Numbers of nodes in the batch, -1 for nodes not in it."""
        raise NotImplementedError

    def add(self, node: Tensor, owner: Tensor | None) -> None:
        """Numbers the nodes that are not in the batch yet; ``node`` may have duplicates."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the batch."""


class _SharedNumbers(_Numbers):
    """Seeds share nodes: a table with a row for every node of the graph, -1 for those without a number.

    A duplicate seed has two numbers; `find` returns the first.
    """

    def __init__(self, seeds: Tensor, table: Tensor) -> None:
        self.table, self.nodes, self.owners, self.count = table, [seeds], None, seeds.numel()
        self._number_first(seeds)

    def _number_first(self, node: Tensor) -> Tensor:
        """Writes the first position of each node; for duplicates the smallest wins, on every device."""
        place = torch.arange(node.numel(), device=node.device, dtype=self.table.dtype)
        self.table.scatter_reduce_(0, node, place, "amin", include_self=False)
        return place

    def find(self, node: Tensor, owner: Tensor | None) -> Tensor:
        return self.table.index_select(0, node).long()

    def add(self, node: Tensor, owner: Tensor | None) -> None:
        node = node[self.table.index_select(0, node) < 0]
        new = node[self._number_first(node) == self.table.index_select(0, node)]
        numbers = torch.arange(self.count, self.count + new.numel(), device=node.device, dtype=self.table.dtype)
        self.table.scatter_(0, new, numbers)
        self.nodes.append(new)
        self.count += new.numel()

    def close(self) -> None:
        self.table.index_fill_(0, torch.cat(self.nodes), -1)


class _DisjointNumbers(_Numbers):
    """Every seed has nodes of its own: sorted pairs (seed, node)."""

    def __init__(self, seeds: Tensor, num_nodes: int) -> None:
        owner = torch.arange(seeds.numel(), device=seeds.device)
        self.num_nodes, self.nodes, self.owners, self.count = num_nodes, [seeds], [owner], seeds.numel()
        self.keys, self.numbers = owner * num_nodes + seeds, owner

    def find(self, node: Tensor, owner: Tensor | None) -> Tensor:
        assert owner is not None
        key = owner * self.num_nodes + node
        if not self.count:
            return torch.full_like(key, -1)
        at = torch.searchsorted(self.keys, key).clamp_(max=self.count - 1)
        return torch.where(self.keys.index_select(0, at) == key, self.numbers.index_select(0, at), -1)

    def add(self, node: Tensor, owner: Tensor | None) -> None:
        assert owner is not None
        assert self.owners is not None
        is_new = self.find(node, owner) < 0
        new = (owner[is_new] * self.num_nodes + node[is_new]).unique()
        numbers = torch.arange(self.count, self.count + new.numel(), device=node.device)
        self.keys, order = torch.cat([self.keys, new]).sort()
        self.numbers = torch.cat([self.numbers, numbers]).index_select(0, order)
        self.owners.append(new.div(self.num_nodes, rounding_mode="floor"))
        self.nodes.append(new - self.owners[-1] * self.num_nodes)
        self.count += new.numel()


class NeighborSampler(BaseSampler):  # type: ignore[misc]  # torch_geometric has no types
    r"""Samples neighbours for PyG's ``NodeLoader`` and ``LinkLoader``; needs neither pyg-lib nor torch-sparse.

    Edges keep their index in the whole graph (``e_id``), so that ``edge_type``, ``edge_weight`` and all other
    attributes of edges and nodes are those of the whole graph, never recomputed on a part of it.

    Random numbers are a hash of counters. With ``disjoint`` each seed node has its own subgraph, a function of (seed,
    epoch, seed node, hop, node, position). Otherwise nodes are shared, and the neighbours of a node are a function of
    (seed, epoch, node, position). In an epoch, the neighbours of a seed node therefore do not depend on the other seed
    nodes of the batch, the process or the worker: always with ``disjoint``, and without it if one direction is sampled
    and all hops have the same number of neighbours.

    With ``num_neighbors=[-1] * L`` a network of L layers gives the same output for seed nodes as on the whole graph, as
    long as its layers do not compute norms from the sampled edges: precompute them with `RelationalNorm`.

    Args:
        data: a ``Data`` with ``edge_index``; on a GPU it is sampled there. Its ``edge_type`` must pass `check_split`.
        num_neighbors: neighbours of each node, a number for every hop; -1 takes all of them.
        direction: ``"in"`` samples senders of messages, ``"out"`` receivers, ``"both"`` this number of each, for layers
            that read both directions (`DirConv`).
        replace: whether an edge may be sampled more than once.
        disjoint: whether every seed node has its own copies of nodes; ``batch`` then holds the seed of each node.
        subgraph_type: ``"directional"`` for the sampled edges; ``"bidirectional"`` also for their reverse edges in the
            graph; ``"induced"`` for all edges between sampled nodes.
        seed: seed of the random numbers.

    Example:
        >>> from torch_geometric.loader import NodeLoader
        >>> ring = Data(edge_index=torch.stack([torch.arange(6), torch.arange(1, 7) % 6]), num_nodes=6)
        >>> loader = NodeLoader(ring, NeighborSampler(ring, [2, 2]), batch_size=2)
        >>> next(iter(loader)).n_id.tolist()
        [0, 1, 5, 4]
    """

    def __init__(
        self,
        data: Data,
        num_neighbors: Sequence[int],
        *,
        direction: str = "in",
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: str | SubgraphType = "directional",
        seed: int = 0,
    ) -> None:
        edge_index, self.num_nodes = _checked_edges(data)
        self.num_neighbors = _checked_hops(num_neighbors)
        check_choice("direction", direction, DIRECTIONS)
        check_flag("replace", replace)
        check_flag("disjoint", disjoint)
        check_whole("seed", seed)
        if replace and direction == "both":
            raise ValueError('`replace` must be False with `direction="both"`, which takes every edge once, got True')
        kind = getattr(subgraph_type, "value", subgraph_type)
        check_choice("subgraph_type", kind, tuple(each.value for each in SubgraphType))
        self.direction, self.replace, self.disjoint, self.seed = direction, replace, disjoint, seed
        self.subgraph_type = SubgraphType(kind)
        self.device, self.num_edges = edge_index.device, edge_index.size(1)
        source, target = edge_index
        needs_in = direction != "out" or self.subgraph_type != SubgraphType.directional
        self._incoming = Adjacency.build(target, source, self.num_nodes) if needs_in else None
        self._ways: list[tuple[Adjacency, int]] = []
        if self._incoming is not None and direction != "out":
            self._ways.append((self._incoming, _IN))
        if direction != "in":
            self._ways.append((Adjacency.build(source, target, self.num_nodes), _OUT))
        numbers = torch.int32 if self.num_nodes < 2**31 else torch.int64
        self._table = None if disjoint else torch.full((self.num_nodes,), -1, dtype=numbers, device=self.device)
        # in shared memory, so that persistent workers read the new epoch
        self._epoch = torch.zeros(1, dtype=torch.long).share_memory_()

    @property
    def epoch(self) -> int:
        """The current epoch, which seeds the samples."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, and with it other samples, in all workers."""
        check_whole("epoch", epoch)
        self._epoch.fill_(epoch)

    def in_degree(self, node: Tensor) -> Tensor:
        """In-degrees of these nodes in the whole graph."""
        assert self._incoming is not None
        return self._incoming.degree(node)

    def sample_from_nodes(self, index: NodeSamplerInput, **kwargs: Any) -> SamplerOutput:
        """The subgraph around these nodes, which come first in it."""
        _check_no_time(index.time)
        out = self._sample(index.node.to(self.device))
        out.metadata = (index.input_id, index.time)
        return out

    def sample_from_edges(self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None) -> SamplerOutput:
        """The subgraph around the ends of these edges and, if requested, of negative ones.

        Negative ends depend on seed, epoch and ``input_id`` of an edge only. As in PyG, some may be actual edges.
        """
        _check_no_time(index.time)
        source, target, label = index.row, index.col, index.label
        count = source.numel()
        if neg_sampling is not None:
            ends = {"dst"} if neg_sampling.is_triplet() else {"src", "dst"}
            amount = math.ceil(neg_sampling.amount)
            drawn = {end: self._negatives(index.input_id, amount, end, neg_sampling) for end in sorted(ends)}
            number = math.ceil(count * neg_sampling.amount)
            source = torch.cat([source, drawn["src"][:number]]) if "src" in ends else source
            target = torch.cat([target, drawn["dst"][:number]])
            if neg_sampling.is_binary():
                label = torch.ones(count) if label is None else label
                label = torch.cat([label, label.new_zeros(number, *label.shape[1:])])
        ends_of_links = torch.cat([source, target])
        if self.disjoint:
            seeds, place = ends_of_links, torch.arange(ends_of_links.numel())
        else:
            seeds, place = ends_of_links.unique(return_inverse=True)
        # with disjoint subgraphs each end of a link is a seed of its own
        out = self._sample(seeds.to(self.device))
        if self.disjoint:
            out.batch = out.batch % max(1, count)
        links = place.to(self.device)
        if neg_sampling is None or neg_sampling.is_binary():
            out.metadata = (index.input_id, links.view(2, -1), label, None)
        else:
            negative = links[2 * count :].view(-1, count).t().squeeze(-1)
            out.metadata = (index.input_id, links[:count], links[count : 2 * count], negative, None)
        return out

    def _negatives(self, input_id: Tensor, amount: int, end: str, config: NegativeSampling) -> Tensor:
        """``amount`` nodes for every link, (amount * links,): first one of each, then the next."""
        key = mixed_key(self.seed, self.epoch, _NEGATIVE, ("src", "dst").index(end))
        bits = mix(mix(key, input_id), torch.arange(amount)[:, None]).view(-1)
        weight = config.src_weight if end == "src" else config.dst_weight
        if weight is None:
            return below(bits, self.num_nodes)
        check_shape(f"{end}_weight", weight, [self.num_nodes])
        share = weight.double().cumsum(0)
        drawn = below(bits, 2**31 - 1).double() / (2**31 - 1) * share[-1]
        return torch.searchsorted(share, drawn, right=True).clamp_(max=self.num_nodes - 1)

    def _sample(self, seeds: Tensor) -> SamplerOutput:
        if seeds.numel():
            check_range("input_nodes", seeds, self.num_nodes)
        if self.direction == "both" and not self.disjoint and seeds.unique().numel() < seeds.numel():
            raise ValueError('`input_nodes` must be different with `direction="both"` unless `disjoint=True`')
        numbers = _DisjointNumbers(seeds, self.num_nodes) if self._table is None else _SharedNumbers(seeds, self._table)
        try:
            return self._subgraph(seeds, numbers)
        finally:
            numbers.close()

    def _subgraph(self, seeds: Tensor, numbers: _Numbers) -> SamplerOutput:
        found, sizes, edges_of_hop = [], [seeds.numel()], []
        for hop, count in enumerate(self.num_neighbors):
            edges = self._hop(seeds, numbers, hop, count)
            sizes.append(numbers.nodes[-1].numel())
            edges_of_hop.append(edges.size(1))
            found.append(edges)
        row, col, edge = torch.cat(found, dim=1) if found else seeds.new_zeros(3, 0)
        node, owner = torch.cat(numbers.nodes), None if numbers.owners is None else torch.cat(numbers.owners)
        if self.direction == "both":
            first = _first_of_equals(edge if owner is None else owner[row] * self.num_edges + edge)
            row, col, edge = row[first], col[first], edge[first]
            hop_of = torch.arange(len(edges_of_hop), device=first.device)
            hop_of = hop_of.repeat_interleave(torch.tensor(edges_of_hop, device=first.device))
            edges_of_hop = torch.bincount(hop_of[first], minlength=len(edges_of_hop)).tolist()
        if self.subgraph_type != SubgraphType.directional:
            sampled = row * node.numel() + col
            row, col, edge = self._induced(node, owner, numbers)
            if self.subgraph_type == SubgraphType.bidirectional:
                ways = (row * node.numel() + col, col * node.numel() + row)
                kept = torch.isin(ways[0], sampled) | torch.isin(ways[1], sampled)
                row, col, edge = row[kept], col[kept], edge[kept]
            return SamplerOutput(node, row, col, edge, owner)  # as in PyG, without sizes per hop
        return SamplerOutput(node, row, col, edge, owner, sizes, edges_of_hop)

    def _hop(self, seeds: Tensor, numbers: _Numbers, hop: int, count: int) -> Tensor:
        """Sampled edges of the last hop's nodes, (3, M): both ends as numbers in the batch, and the edge index."""
        node, owner = numbers.nodes[-1], None if numbers.owners is None else numbers.owners[-1]
        own = torch.arange(numbers.count - node.numel(), numbers.count, device=self.device)
        drawn = []
        for adjacency, use in self._ways:
            if owner is None:
                key = mix(mixed_key(self.seed, self.epoch, use), node)
            else:
                key = mix(mix(mixed_key(self.seed, self.epoch, use, hop), seeds.index_select(0, owner)), node)
            taken, position = draw_positions(key, adjacency.degree(node), count, self.replace)
            other, edge = adjacency.entries(node, taken, position)
            at = own.repeat_interleave(taken, output_size=position.numel())
            owner_of = None if owner is None else owner.repeat_interleave(taken, output_size=position.numel())
            drawn.append((other, at, edge, owner_of))
        others = torch.cat([each[0] for each in drawn])
        owners = None if owner is None else torch.cat([each[3] for each in drawn])  # type: ignore[misc]
        numbers.add(others, owners)
        edges = []
        for (_, use), (other, at, edge, owner_of) in zip(self._ways, drawn, strict=True):
            number = numbers.find(other, owner_of)
            edges.append(torch.stack([number, at, edge] if use == _IN else [at, number, edge]))
        return torch.cat(edges, dim=1)

    def _induced(self, node: Tensor, owner: Tensor | None, numbers: _Numbers) -> tuple[Tensor, Tensor, Tensor]:
        """All edges between the nodes of a batch: numbers of both ends, and edge indices."""
        assert self._incoming is not None
        degree = self._incoming.degree(node)
        position = _ranges(degree)
        source, edge = self._incoming.entries(node, degree, position)
        col = torch.arange(node.numel(), device=self.device)
        col = col.repeat_interleave(degree, output_size=position.numel())
        row = numbers.find(source, None if owner is None else owner.index_select(0, col))
        kept = row >= 0
        return row[kept], col[kept], edge[kept]


def _first_of_equals(key: Tensor) -> Tensor:
    """Positions of the first occurrence of each key."""
    order = key.sort(stable=True).indices
    is_first = torch.ones_like(key, dtype=torch.bool)
    is_first[order[1:]] = key[order[1:]] != key[order[:-1]]
    return is_first.nonzero().view(-1)


def _checked_edges(data: object) -> tuple[Tensor, int]:
    check_homogeneous("data", data)
    if not isinstance(data, Data):
        hint = ""
        if isinstance(data, tuple | list):
            hint = ": stores are sampled by their own loader, see `graphprism.loader.with_edge_type`"
        raise TypeError(f"`data` must be a torch_geometric Data, got {type(data).__name__}{hint}")
    if data.edge_index is None:
        raise ValueError("`data.edge_index` must be given, got None")
    check_shape("data.edge_index", data.edge_index, [2, "E"])
    check_integer("data.edge_index", data.edge_index)
    num_nodes = int(data.num_nodes)
    check_range("data.edge_index", data.edge_index, num_nodes)
    if data.get("edge_type") is not None:  # here, as no batch can show what links were held out
        check_split(data)
    return data.edge_index.long(), num_nodes


def _checked_hops(num_neighbors: Sequence[int]) -> list[int]:
    found = getattr(num_neighbors, "values", num_neighbors)  # PyG's NumNeighbors holds a list
    if not isinstance(found, Sequence) or isinstance(found, str) or not all(type(each) is int for each in found):
        raise TypeError(f"`num_neighbors` must be a list of whole numbers, one for every hop, got {num_neighbors!r}")
    if not found or min(found) < -1:
        raise ValueError(f"`num_neighbors` must have numbers of at least 0, or -1 for all, got {list(found)}")
    return list(found)


def _check_no_time(time: object) -> None:
    if time is not None:
        raise ValueError("`input_time` must be None, as temporal sampling is not supported, got a tensor")
