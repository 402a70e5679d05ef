"""A data set as padded tables on the device, from which batches of a fixed shape are gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn import MODELS
from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.pair_products import MOST_RELATIONS, TILE
from graphprism.training.prepared_data import edge_needs, positions, split_graphs
from graphprism.training.run import Run


@dataclass(frozen=True)
class Rows:
    """The nodes of K batches as rows of the data set, padded to one length.

    Attributes:
        node: (..., N) row of the data set; padding has that of an extra node without edges.
        owner: (..., N) graph of the batch that the node belongs to; -1 for padding.
        place: (..., N) position of each row in the order of the graphs; `None` if rows are in that order.
    """

    node: Tensor
    owner: Tensor
    place: Tensor | None = None


@dataclass(frozen=True)
class Inputs:
    """Arguments of K networks, with a leading dimension for runs; see `graphprism.nn.GNN`."""

    x: Tensor
    numbers: Tensor
    weights: Tensor
    owner: Tensor
    is_node: Tensor | None
    edge_attr: Tensor | None
    pe: Tensor | None
    edge_pe: Tensor | None
    active: Tensor | None

    def tensors(self) -> tuple[Tensor | None, ...]:
        """All fields, in their order."""
        return tuple(getattr(self, each.name) for each in fields(self))

    def map(self, function: Callable[[Tensor], Tensor]) -> Inputs:
        """Applies a function to every tensor."""
        return Inputs(*(None if each is None else function(each) for each in self.tensors()))  # type: ignore[arg-type]

    def unflatten(self, sizes: Sequence[int]) -> Inputs:
        """Splits the first dimension into several."""
        return self.map(lambda each: each.unflatten(0, tuple(sizes)))

    def cut(self, length: int) -> Inputs:
        """The first ``length`` nodes of every batch, (S, K, N, ...)."""
        active = None if self.active is None else self.active[..., : -(-length // TILE)]
        return replace(self.map(lambda each: each[:, :, :length]), active=active)


class TableDataset:
    """All graphs of a data set as tables for lockstep runs, on one device.

    Args:
        run: The run, of which split, model, positional features and precision are used.
        dataset: Graphs with targets.
        device: Where it will be.
        dtype: Type of weights, positions and features.
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device, dtype: torch.dtype) -> None:
        whole = dataset.batch(torch.arange(len(dataset)))
        norm, takes_edge_attr = edge_needs(run, dataset)
        (adj,) = split_graphs(run, dataset, whole)
        table = PaddedAdj.build(adj, norm, dtype)
        self.num_relations, self.norm, self.num_slots = adj.num_relations, norm, table.num_slots
        # with an extra row for padding: a node without edges
        self._numbers = _one_more(table.relative().numbers).to(device)
        self._weights = _one_more(table.weights).to(device)
        self._x = _one_more(whole.x.to(dtype) if whole.x.is_floating_point() else whole.x).to(device)
        edges = _one_more(_by_entry(adj, whole.edge_attr, table)) if takes_edge_attr else None
        self._edge_attr = None if edges is None else edges.to(device)
        pe, edge_pe = positions(run, dataset)
        self._pe = None if pe is None else _one_more(pe.to(dtype)).to(device)
        self._edge_pe: Tensor | None = None
        if edge_pe is not None:
            self._edge_pe = _one_more(_by_entry(adj, edge_pe.to(dtype), table)).to(device)
        self._base = table.base.to(device)
        # rows are sorted by outgoing relations if products can skip relations that no row of a tile sends by
        sends = _sends(adj) if MODELS[run.model].fusable else None
        self._sends = None if sends is None else _one_more(sends).to(device)
        # batch norms need a mask of the rows that are nodes
        has_norm = run.ffn or run.pe_encoder == "walk" or MODELS[run.model].has_batch_norm
        self._tells_nodes = run.norm is not None or has_norm
        self.ptr = whole.ptr.to(device)
        self.sizes = torch.cat([whole.ptr.diff(), torch.zeros(1, dtype=torch.long)]).to(device)
        y = whole.y.to(dtype) if whole.y.is_floating_point() else whole.y
        self.y = _one_more(y).to(device)

    @property
    def leaves_out_pairs(self) -> bool:
        """Whether products may skip pairs (node, relation) without outgoing edges: rows can be sorted by `together`."""
        return self._sends is not None

    @property
    def rows_a_node(self) -> int:
        """Rows of hidden channels that a node has: one for each slot of an edge where edges have features."""
        return 1 if self._edge_attr is None else self.num_slots

    @property
    def no_graph(self) -> int:
        """Number of an extra graph without nodes, which pads the last batch."""
        return self.sizes.numel() - 1

    def rows(self, graphs: Tensor, length: int) -> Rows:
        """Rows of batches of graphs, (..., B) -> (..., N); the graphs of each must have at most ``length`` nodes."""
        end = self.sizes[graphs].cumsum(-1)
        place = torch.arange(length, device=graphs.device).expand(*graphs.shape[:-1], length).contiguous()
        owner = torch.searchsorted(end, place, right=True)
        inside = owner < graphs.size(-1)
        owner = owner.clamp(max=graphs.size(-1) - 1)
        graph = graphs.gather(-1, owner)
        first = self.ptr[graph] - (end.gather(-1, owner) - self.sizes[graph])
        node = torch.where(inside, first + place, self._x.size(0) - 1)
        return Rows(node.to(torch.int32), torch.where(inside, owner, -1).to(torch.int32))

    def together(self, rows: Rows) -> Rows:
        """Sorts rows so that nodes with the same outgoing relations are adjacent; those without any come last."""
        if self._sends is None:
            return rows
        rank = _gray_rank(self._sends[rows.node.long()])
        place = torch.where(rank == 0, 1 << self.num_relations, rank).argsort(dim=-1, stable=True)
        return Rows(rows.node.gather(-1, place), rows.owner.gather(-1, place), place)

    def inputs(self, rows: Rows) -> Inputs:
        """Arguments of the networks for (K, N) rows; no host-device sync."""
        node = rows.node.long()
        return Inputs(
            x=self._x[node],
            numbers=self._renumber(self._numbers[node], rows.place),
            weights=self._weights[node],
            owner=rows.owner,
            is_node=rows.owner >= 0 if self._tells_nodes else None,
            edge_attr=None if self._edge_attr is None else self._edge_attr[node],
            pe=None if self._pe is None else self._pe[node],
            edge_pe=None if self._edge_pe is None else self._edge_pe[node],
            active=None if self._sends is None or rows.place is None else _tiles(self._sends[node], self.num_relations),
        )

    def adj(self, numbers: Tensor, weights: Tensor, is_node: Tensor | None, active: Tensor | None) -> PaddedAdj:
        """The graph of one run."""
        return PaddedAdj(numbers, weights, self.num_relations, self.norm, is_node, active)

    def _renumber(self, relative: Tensor, place: Tensor | None) -> Tensor:
        """Converts numbers relative to the node that holds them, (..., N, 5 D), to rows of the batch."""
        if place is None:
            row = torch.arange(relative.size(-2), device=relative.device, dtype=torch.int32)
            return relative + row[:, None] * self._base
        numbers = relative + place.to(torch.int32)[..., None] * self._base
        row_of = place.argsort(dim=-1).to(torch.int32)
        moved, per_node = 3 * self.num_slots, self._base[: 3 * self.num_slots]  # relations stay what they are
        head = numbers[..., :moved]
        old = head // per_node
        new = row_of.gather(-1, old.flatten(-2).long()).view_as(old)
        numbers[..., :moved] = head + (new - old) * per_node
        return numbers


def _one_more(tensor: Tensor) -> Tensor:
    return torch.cat([tensor, tensor.new_zeros(1, *tensor.shape[1:])])


def _sends(adj: RelationalAdj) -> Tensor | None:
    """(N,) bit mask of the outgoing relations of each node; `None` for one relation, or too many for a mask."""
    if not 1 < adj.num_relations <= MOST_RELATIONS:
        return None
    there = (adj.outgoing.rowptr.diff() > 0).view(-1, adj.num_relations).int()
    return (there << torch.arange(adj.num_relations)).sum(1).to(torch.int32)


def _gray_rank(bits: Tensor) -> Tensor:
    """Position of bit masks in the Gray code, where neighbours differ in one relation only."""
    for shift in (1, 2, 4, 8, 16):
        bits = bits ^ (bits >> shift)
    return bits


def _tiles(bits: Tensor, num_relations: int) -> Tensor:
    """Union of the bit masks of each tile of rows: (K, N) -> (K, N / 64)."""
    tiles = torch.nn.functional.pad(bits, (0, -bits.size(-1) % TILE)).unflatten(-1, (-1, TILE))
    joined = torch.zeros_like(tiles[..., 0])
    for relation in range(num_relations):  # vectorised it would allocate a number per row, relation and step
        joined |= (tiles >> relation & 1).amax(-1) << relation
    return joined


def _by_entry(adj: RelationalAdj, edge_attr: Tensor, table: PaddedAdj) -> Tensor:
    """Rows of edges at the slots of their receivers: (N, D, C); zeros in empty slots."""
    found = edge_attr.new_zeros(table.size[0], table.num_slots, edge_attr.size(1))
    found[adj.incoming.places] = edge_attr[adj.incoming.order.long()]
    return found
