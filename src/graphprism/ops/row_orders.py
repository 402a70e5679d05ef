"""Reordered rows of a `Csr` for faster products: without empty pairs, and sorted by number of entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.csr import Csr, span_sum

# A program processes the entries of a few nodes in parallel, so its time is that of the longest row. Rows of 64
# entries do not delay a kernel; a hub of thousands would leave the rest of the GPU idle.
_MOST_LIGHT_ENTRIES = 64


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


def node_order(csr: Csr) -> NodeOrder:
    """The nodes of ``csr`` by their number of entries; built once."""
    if "node_order" not in csr.cache:
        csr.cache["node_order"] = NodeOrder.build(csr)
    order: NodeOrder = csr.cache["node_order"]
    return order


@dataclass(frozen=True)
class NodeOrder:
    """Nodes of few entries in the order in which a kernel processes them, and hubs separately.

    Attributes:
        light: (n,) the nodes of at most 64 entries, most entries first, so that the longest rows do not start last.
        hub: (H,) all other nodes.
        hub_csr: the entries of the hubs alone; hub k is row node k.
    """

    light: Tensor
    hub: Tensor
    hub_csr: Csr

    @staticmethod
    def build(csr: Csr) -> NodeOrder:
        """Sorts the nodes (stable); a host-device sync, hence done once per graph."""
        count, by_count = torch.sort(csr.node_rowptr.diff(), descending=True, stable=True)
        num_hubs = int((count > _MOST_LIGHT_ENTRIES).sum())
        hub = by_count[:num_hubs]
        return NodeOrder(by_count[num_hubs:].to(csr.col.dtype), hub, _rows_of(csr, hub))


def _rows_of(csr: Csr, node: Tensor) -> Csr:
    pair = (node[:, None] * csr.num_relations + torch.arange(csr.num_relations, device=node.device)).view(-1)
    begin = csr.rowptr[pair].long()
    count = csr.rowptr[pair + 1] - begin
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    moved = torch.repeat_interleave(begin - rowptr[:-1], count)
    entry = moved + torch.arange(moved.numel(), device=node.device)
    rowptr = rowptr.to(csr.rowptr.dtype)
    return Csr(rowptr, csr.col[entry], csr.pair_col[entry], csr.order[entry], csr.num_relations)
