"""Reordered rows of a `Csr` for faster products: without empty pairs, and sorted by number of entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.csr import Csr, Segments, span_sum
from graphprism.ops.kernels import Launches

# Rows that a program of a kernel processes in parallel, and the most entries of a row.
TILE_ROWS = 16
ROW_ENTRIES = 64
# Relations that a program sums side by side: their ends are the bytes of one number.
TILE_RELATIONS = 4
# Relations by which rows of equal length are sorted.
_MOST_PATTERN = 32


def active_rows(csr: Csr, dense: Tensor) -> ActiveRows:
    """The active rows of ``csr`` in blocks whose sums over rows of ``dense`` fit the cache; built once."""
    step = csr.nodes_per_block(dense)
    key = ("active", step)
    if key not in csr.cache:
        csr.cache[key] = ActiveRows.build(csr, step)
    rows: ActiveRows = csr.cache[key]
    return rows


@dataclass(frozen=True)
class ActiveBlock:
    """Consecutive nodes, their active rows sorted by (relation, node), and the entries of those rows."""

    nodes: slice
    rows: slice
    entries: slice
    relations: tuple[int, ...]  # number of rows of each relation


@dataclass(frozen=True)
class ActiveRows:
    r"""The rows of a `Csr` that are not empty.

    They are sorted by block (consecutive nodes that fit the cache), then by relation, so that a relation of a block is
    one contiguous product.

    Attributes:
        rowptr, col, order: as in `Csr`, over K active rows.
        node: (K,) the node of every row.
        back_rowptr, back_col: (N + 1,), (K,) the rows of every node, counted from the first row of its block.
        blocks: bounds of each block.
    """

    rowptr: Tensor
    col: Tensor
    order: Tensor
    node: Tensor
    back_rowptr: Tensor
    back_col: Tensor
    blocks: tuple[ActiveBlock, ...]
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def build(csr: Csr, nodes_per_block: int) -> ActiveRows:
        """Reorders the sorted rows; a host-device sync, hence done once per graph."""
        num_relations, device = csr.num_relations, csr.rowptr.device
        length = csr.rowptr.diff().long()
        pair = length.nonzero().view(-1)
        node = pair // num_relations
        group = node // nodes_per_block * num_relations + pair % num_relations
        order = torch.argsort(group, stable=True)
        length, start = length[pair][order], csr.rowptr[pair].long()[order]
        rowptr = torch.cat([length.new_zeros(1), length.cumsum(0)])
        moved = torch.repeat_interleave(start - rowptr[:-1], length, output_size=csr.col.numel())
        entry = moved + torch.arange(csr.col.numel(), device=device)
        num_blocks = max(1, -(-csr.num_rows // nodes_per_block))
        rows = torch.bincount(group, minlength=num_blocks * num_relations).view(num_blocks, num_relations)
        row_ptr = torch.cat([rows.new_zeros(1), rows.sum(1).cumsum(0)])
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=device)
        dtype = csr.col.dtype
        return ActiveRows(
            rowptr=rowptr.to(dtype),
            col=csr.col[entry],
            order=csr.order[entry],
            node=node[order],
            back_rowptr=torch._convert_indices_from_coo_to_csr(node, csr.num_rows).to(dtype),
            back_col=(place - row_ptr[node // nodes_per_block]).to(dtype),
            blocks=_blocks(rows.tolist(), rowptr[row_ptr].tolist(), nodes_per_block, csr.num_rows),
        )

    def sums(self, value: Tensor | None, dense: Tensor) -> Iterator[tuple[ActiveBlock, Tensor]]:
        """Yields every block with the sums of its active rows over ``dense[col]``."""
        for block in self.blocks:
            rowptr = self.rowptr[block.rows.start : block.rows.stop + 1]
            span = (block.entries.start, block.entries.stop)
            yield block, span_sum(self._cache, rowptr, span, self.col, value, dense, ("rows", block.rows.start))

    def collect(self, block: ActiveBlock, rows: Tensor) -> Tensor:
        """Sums the rows of every node of the block."""
        rowptr = self.back_rowptr[block.nodes.start : block.nodes.stop + 1]
        span = (block.rows.start, block.rows.stop)
        return span_sum(self._cache, rowptr, span, self.back_col, None, rows, ("back", block.rows.start))


def relation_products(
    block: ActiveBlock, rows: Tensor, matrices: Iterable[Tensor], out: Tensor | None = None
) -> Tensor:
    """Multiplies the rows of each relation of a block by its matrix: (n, F), R times (F, F') -> (n, F')."""
    parts = list(zip(rows.split_with_sizes(block.relations), matrices, strict=True))
    out = rows.new_empty(rows.size(0), parts[0][1].size(1)) if out is None else out
    for (part, matrix), place in zip(parts, out.split_with_sizes(block.relations), strict=True):
        torch.mm(part, matrix, out=place)
    return out


def _blocks(rows: list[list[int]], entries: list[int], step: int, num_nodes: int) -> tuple[ActiveBlock, ...]:
    row_ptr = [0, *accumulate(sum(counts) for counts in rows)]
    found = []
    for number, counts in enumerate(rows):
        nodes = slice(number * step, min((number + 1) * step, num_nodes))
        span = slice(row_ptr[number], row_ptr[number + 1])
        found.append(ActiveBlock(nodes, span, slice(entries[number], entries[number + 1]), tuple(counts)))
    return tuple(found)


def node_tiles(csr: Csr, may_sync: bool = True) -> NodeTiles:
    """The rows of ``csr`` in tiles; built once."""
    if "node_tiles" not in csr.cache:
        csr.cache["node_tiles"] = NodeTiles.build(csr, may_sync)
    tiles: NodeTiles = csr.cache["node_tiles"]
    return tiles


@dataclass(frozen=True)
class NodeTiles:
    """The entries of a `Csr` in the layout of a kernel that processes 16 rows at once.

    A row is a node, or a piece of a hub: nodes of more than 64 entries are cut, since the time of a tile is that of its
    longest row. Rows of one tile have equally many entries and entries in the same relations wherever possible, the
    longest rows first, so that they do not start last. The k-th entries of the 16 rows of a tile are adjacent *slots*;
    a row that has fewer is filled up with slots that are not used.

    Attributes:
        node: (n,) the node of each row.
        target: (n,) the node of a row that is a whole node or the first piece of one; N + p for the p-th other piece.
        ends: (G, n) for each four relations, one byte each: the number of entries of a row in the relations up to it.
        active: (G, tiles) one bit for each of four relations: whether any row of the tile has an entry in it.
        start: (tiles + 1,) the first slot of each tile.
        col: (slots,) the other node.
        order: (slots,) the index of the entry before sorting, 0 where a slot is not used.
        hub: (H,) the hubs, some of them several times.
        hub_begin, hub_end: (H,) the range of the other pieces of each hub, counted from 0; empty but for its first.
        num_pieces: number of all other pieces; an upper bound if the host did not wait for the device.
        launches: kernels bound to these tensors.
    """

    node: Tensor
    target: Tensor
    ends: Tensor
    active: Tensor
    start: Tensor
    col: Tensor
    order: Tensor
    hub: Tensor
    hub_begin: Tensor
    hub_end: Tensor
    num_pieces: int
    launches: Launches = field(default_factory=Launches, init=False, repr=False, compare=False)

    @property
    def num_tiles(self) -> int:
        """Number of tiles."""
        return self.start.numel() - 1

    @staticmethod
    def build(csr: Csr, may_sync: bool = True) -> NodeTiles:
        """Sorts the rows (stable).

        Args:
            csr: The entries.
            may_sync: Whether to ask the device for the number of pieces. Without that there are as many as the entries
                allow; those that no hub needs are rows without entries.
        """
        device, dtype, num_entries = csr.rowptr.device, csr.col.dtype, csr.col.numel()
        cut = Segments.cut(csr.node_rowptr, num_entries, ROW_ENTRIES)
        cut = cut.used() if may_sync else cut
        hubs = (cut.hub_begin < cut.hub_end).nonzero().view(-1) if may_sync else slice(None)
        # whole nodes and first pieces, then the other pieces
        node = torch.cat([torch.arange(csr.num_rows, device=device), cut.hub])
        target, begin = torch.arange(node.numel(), device=device), cut.begin.long()
        ends = _ends_of_rows(csr, node, begin, cut.end.long() - begin)  # (n, R)
        length = ends[:, -1]
        found = ends.diff(dim=1, prepend=torch.zeros_like(ends[:, :1])) > 0
        bits = 2 ** torch.arange(min(csr.num_relations, _MOST_PATTERN), device=device)
        pattern = (found[:, : bits.numel()].long() * bits).sum(dim=1)
        order = torch.argsort((ROW_ENTRIES - length) * 2**_MOST_PATTERN + pattern, stable=True)
        node, target, ends, found, length = node[order], target[order], ends[order], found[order], length[order]
        begin = begin[order]
        width = length[::TILE_ROWS]  # the longest row of each tile comes first
        start = torch.cat([width.new_zeros(1), (width * TILE_ROWS).cumsum(0)])
        # sorted by length, all tiles together have fewer unused slots than one tile of the longest rows has slots
        slots = int(start[-1]) if may_sync else num_entries + TILE_ROWS * ROW_ENTRIES
        row = torch.repeat_interleave(torch.arange(node.numel(), device=device), length, output_size=num_entries)
        k = torch.arange(row.numel(), device=device) - (length.cumsum(0) - length)[row]
        entry = begin[row] + k
        slot = start[row // TILE_ROWS] + k * TILE_ROWS + row % TILE_ROWS
        col, first_order = (index.new_zeros(slots).index_copy_(0, slot, index[entry]) for index in (csr.col, csr.order))
        return NodeTiles(
            node=node.to(dtype),
            target=target.to(dtype),
            ends=_packed(ends, 8).to(torch.int32).t().contiguous(),
            active=_packed(_any_of_tile(found), 1).to(torch.int32).t().contiguous(),
            start=start.to(torch.int32 if slots < 2**31 else torch.int64),
            col=col,
            order=first_order,
            hub=cut.hub[hubs],
            hub_begin=cut.hub_begin[hubs],
            hub_end=cut.hub_end[hubs],
            num_pieces=cut.hub.numel(),
        )


def _ends_of_rows(csr: Csr, node: Tensor, begin: Tensor, length: Tensor) -> Tensor:
    """(n, R) the number of entries of each row up to and including each relation."""
    pair = node[:, None] * csr.num_relations + torch.arange(csr.num_relations, device=node.device)
    ends = csr.rowptr[pair + 1].long() - begin[:, None]
    return torch.minimum(ends.clamp(min=0), length[:, None])


def _any_of_tile(found: Tensor) -> Tensor:
    """(n, R) -> (tiles, 4 G) whether any row of a tile has an entry in the relation; none has beyond the last one."""
    (rows, relations), tiles = found.shape, -(-found.size(0) // TILE_ROWS)
    padded = found.new_zeros(tiles * TILE_ROWS, relations + -relations % TILE_RELATIONS)  # torch 2.6 cannot pad no rows
    padded[:rows, :relations] = found
    return padded.view(tiles, TILE_ROWS, padded.size(1)).any(dim=1)


def _packed(numbers: Tensor, bits: int) -> Tensor:
    """(n, R) -> (n, G) four numbers in one, of ``bits`` bits each; the last column fills up a multiple of four."""
    filled = numbers[:, -1:].expand(-1, -numbers.size(1) % TILE_RELATIONS)
    numbers = torch.cat([numbers, filled], dim=1).long()
    shifts = torch.arange(TILE_RELATIONS, device=numbers.device) * bits
    groups = numbers.view(numbers.size(0), numbers.size(1) // TILE_RELATIONS, TILE_RELATIONS)
    return (groups << shifts).sum(dim=2)
