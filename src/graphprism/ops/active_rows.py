"""The pairs (node, relation) that have an entry at all, grouped so that each relation is one matrix product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.csr import Csr
from graphprism.ops.csr_sum import span_sum


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
    """A run of nodes, their active rows sorted by (relation, node), and the entries of those rows."""

    nodes: slice
    rows: slice
    entries: slice
    relations: tuple[slice, ...]  # rows of each relation, counted from the first row of the block


@dataclass(frozen=True)
class ActiveRows:
    r"""The rows of a `Csr` that are not empty.

    They stand block by block (runs of nodes that fit the cache), within a block relation by relation, so that a
    relation is one contiguous product.

    Attributes:
        rowptr, col, order: as in `Csr`, over K active rows.
        node: (K,) the node of every row.
        back_rowptr, back_col: (N + 1,), (K,) the rows of every node, counted from the first row of its block.
        blocks: where each block begins and ends.
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
        """Reorders what is sorted already; waits for the device, so it is built once."""
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
        """Adds up the rows of every node of the block."""
        rowptr = self.back_rowptr[block.nodes.start : block.nodes.stop + 1]
        span = (block.rows.start, block.rows.stop)
        return span_sum(self._cache, rowptr, span, self.back_col, None, rows, ("back", block.rows.start))


def _blocks(rows: list[list[int]], entries: list[int], step: int, num_nodes: int) -> tuple[ActiveBlock, ...]:
    row_ptr = [0, *accumulate(sum(counts) for counts in rows)]
    found = []
    for number, counts in enumerate(rows):
        relations = tuple(slice(begin, end) for begin, end in pairwise([0, *accumulate(counts)]))
        nodes = slice(number * step, min((number + 1) * step, num_nodes))
        span = slice(row_ptr[number], row_ptr[number + 1])
        found.append(ActiveBlock(nodes, span, slice(entries[number], entries[number + 1]), relations))
    return tuple(found)
