"""Entries sorted by (node, relation): the structure behind every product with a relational graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.csr_sum import span_sum

# Bytes of the sums of one block. A product that goes block by block keeps them in the cache instead of writing (N, R,
# F) numbers to memory and reading them back: two cores, 169k nodes, 64 channels, forward, 51 ms at 2 MiB, 77 ms
# unblocked. On a GPU the matrix products are faster in one piece; blocks only bound the memory of very large graphs.
_CPU_BLOCK_BYTES = 2 << 20
_GPU_BLOCK_BYTES = 256 << 20


@dataclass(frozen=True)
class Csr:
    """Entries (row node, relation, other node), sorted by row node and, within a node, by relation.

    Attributes:
        rowptr: (N * R + 1,) where the entries of each pair (node, relation) begin.
        col: (K,) the other node of every entry.
        pair_col: (K,) the pair ``other node * R + relation`` of every entry.
        order: (K,) the number that the entry had before sorting.
        num_relations: R.
        cache: what others derive from this structure.
    """

    rowptr: Tensor
    col: Tensor
    pair_col: Tensor
    order: Tensor
    num_relations: int
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def build(row: Tensor, relation: Tensor | None, col: Tensor, size: tuple[int, int], num_relations: int) -> Csr:
        """Sorts entries by (row, relation); equal ones keep their order, so that the same input gives the same sums."""
        num_rows, num_cols = size
        pair = row.long() if relation is None else row.long() * num_relations + relation.long()
        pair, order = torch.sort(pair, stable=True)
        # what PyG does as well; `bincount` would wait for the device
        rowptr = torch._convert_indices_from_coo_to_csr(pair, num_rows * num_relations)
        col = col.long()[order]
        pair_col = col if relation is None else col * num_relations + relation.long()[order]
        largest = max(num_rows * num_relations, num_cols * num_relations, order.numel())
        dtype = torch.int32 if largest < 2**31 else torch.int64  # half the index bytes wherever they fit
        return Csr(rowptr.to(dtype), col.to(dtype), pair_col.to(dtype), order.to(dtype), num_relations)

    @property
    def num_rows(self) -> int:
        """Number of row nodes N."""
        return (self.rowptr.numel() - 1) // self.num_relations

    @property
    def node_rowptr(self) -> Tensor:
        """(N + 1,) where the entries of each node begin, all relations together."""
        if "node_rowptr" not in self.cache:
            self.cache["node_rowptr"] = self.rowptr[:: self.num_relations].contiguous()
        rowptr: Tensor = self.cache["node_rowptr"]
        return rowptr

    @property
    def places(self) -> tuple[Tensor, Tensor]:
        """(K,) the row node of every entry, and (K,) which of the entries of that node it is."""
        start = self.node_rowptr.long()
        row = torch.repeat_interleave(torch.arange(self.num_rows, device=start.device), start.diff())
        return row, torch.arange(row.numel(), device=start.device) - start[row]

    @property
    def active_share(self) -> float:
        """Share of the pairs (node, relation) that have an entry; waits for the device once."""
        if "active_share" not in self.cache:
            pairs = self.rowptr.numel() - 1
            self.cache["active_share"] = float(self.rowptr.diff().count_nonzero()) / max(1, pairs)
        share: float = self.cache["active_share"]
        return share

    def nodes_per_block(self, dense: Tensor) -> int:
        """How many nodes the sums over rows of ``dense`` fit the cache for, all relations side by side."""
        budget = _GPU_BLOCK_BYTES if dense.is_cuda else _CPU_BLOCK_BYTES
        step = budget // max(1, self.num_relations * dense.size(1) * dense.element_size())
        return min(max(1, step), max(1, self.num_rows))

    def blocks(self, step: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Runs of ``step`` nodes: ((first node, first entry), (last node + 1, last entry + 1))."""
        if step >= self.num_rows:
            return [((0, 0), (self.num_rows, self.col.numel()))]
        if ("blocks", step) not in self.cache:
            nodes = [*range(0, self.num_rows, step), self.num_rows]
            places = torch.tensor(nodes, device=self.rowptr.device) * self.num_relations
            self.cache["blocks", step] = list(pairwise(zip(nodes, self.rowptr[places].tolist(), strict=True)))
        blocks: list[tuple[tuple[int, int], tuple[int, int]]] = self.cache["blocks", step]
        return blocks

    def sum_pairs(self, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
        """One sum for every pair (node, relation), over ``dense[col]``: (N * R, F)."""
        return span_sum(self.cache, self.rowptr, (0, col.numel()), col, value, dense, "pairs")

    def sum_nodes(self, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
        """One sum for every node, all relations together, over ``dense[col]``: (N, F)."""
        return span_sum(self.cache, self.node_rowptr, (0, col.numel()), col, value, dense, "nodes")

    def sums_by_block(self, value: Tensor | None, dense: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yields runs of nodes with the sums of ``dense[self.col]``, relations side by side: (n, R * F)."""
        step, width = self.nodes_per_block(dense), self.num_relations * dense.size(1)
        for (begin, first), (end, last) in self.blocks(step):
            rowptr = self.rowptr[begin * self.num_relations : end * self.num_relations + 1]
            h = span_sum(self.cache, rowptr, (first, last), self.col, value, dense, (step, begin))
            yield slice(begin, end), h.view(end - begin, width)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Csr:
        """The same structure on another device."""
        rowptr, col, pair_col, order = (index.to(device, non_blocking=non_blocking) for index in self.indices)
        return Csr(rowptr, col, pair_col, order, self.num_relations)

    @property
    def indices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four index tensors, in the order of the constructor."""
        return self.rowptr, self.col, self.pair_col, self.order
