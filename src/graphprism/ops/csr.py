"""CSR: entries sorted by (node, relation), and the sums over rows that every product with a relational graph needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_dtype, check_integer, check_same_device, check_shape, guard_ranges
from graphprism.ops.backends import Backends, is_batched
from graphprism.ops.kernels import Launches

# Bytes of the sums of one block, on a CPU for each thread. A blocked product keeps them in the cache instead of writing
# (N, R, F) numbers to memory and reading them back: two cores, 169k nodes, 64 channels, forward, 51 ms at 2 MiB, 77 ms
# unblocked. 16 threads that share 2 MiB mostly wait for each other: 2.3 times as fast as one. On a GPU the matrix
# products are faster unblocked; blocks only bound the memory of very large graphs.
_CPU_BLOCK_BYTES = 2 << 20
_GPU_BLOCK_BYTES = 256 << 20
# Entries that one program sums, at about 0.12 us each on an H200: 128 do not delay the other rows. Unsegmented,
# a single hub of 27,000 entries took 3.4 ms of a product that otherwise takes 0.2 ms.
_LONGEST_SEGMENT = 128
# Entries of a graph whose rows are not cut: the longest possible row takes a quarter of a millisecond, and no second
# launch is needed.
_FEWEST_CUT = 2048
# Gathered numbers of at least 32 channels below which launch time dominates: about 50 us for a Triton kernel, 15 us for
# one of PyTorch's. That one sums a row sequentially, however few its channels are: 5 ms for a softmax on 1.2M entries
# with a hub of 12,600.
_FEWEST_NUMBERS = 1 << 22


def reference(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """The definition: sums ``value[k] * dense[col[k]]`` over the entries ``k`` of every row; never optimised."""
    rows = []
    for begin, end in zip(rowptr[:-1].tolist(), rowptr[1:].tolist(), strict=True):
        entries = dense[col[begin:end].long()]
        if value is not None:
            entries = value[begin:end, None] * entries
        rows.append(entries.sum(dim=0))
    return torch.stack(rows) if rows else dense.new_zeros(0, dense.size(1))


def embedding_bag(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """Treats every row as one bag; PyTorch's CPU kernel prefetches rows.

    Measured on two cores, 1.17M entries, 64 channels, float32: 28 ms, against 67 ms for MKL's CSR product, 44 ms for
    ``torch.sparse.mm(..., reduce="sum")`` and 379 ms for gather and ``index_add``. Half precisions are summed in
    float32.
    """
    if dense.size(0) == 0 or dense.size(1) == 0:  # the kernel rejects an empty table
        return dense.new_zeros(rowptr.numel() - 1, dense.size(1))
    # not `torch.nn.functional.embedding_bag`: its checks take as long as the sums of a small graph
    # detached: for a tensor with a gradient it would prepare a backward pass, which the callers have their own for; not
    # others, as batched gradients (`is_grads_batched`) cannot be detached
    dense = dense.detach() if dense.requires_grad else dense
    return torch.embedding_bag(dense.contiguous(), col, rowptr, False, 0, False, value, True, None)[0]


BACKENDS = Backends(
    automatic="embedding_bag",
    reference=reference,
    embedding_bag=embedding_bag,
    triton="graphprism.ops.kernels.csr_sum:cut_and_sum",
)


def csr_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k = p_i}^{p_{i+1} - 1} v_k \, \mathbf{x}_{c_k}`, without autograd.

    Here :math:`p` is ``rowptr``, :math:`c` is ``col``, :math:`v` is ``value`` (ones if `None`) and :math:`\mathbf{x}`
    is ``dense``. Indices in ``rowptr`` and ``col`` must be in range; see `guard_ranges` for the errors otherwise.

    Shapes: ``rowptr`` (M + 1,), ``col`` (K,), ``value`` (K,), ``dense`` (N, F) -> (M, F)
    """
    check_shape("dense", dense, ["N", "F"])
    check_shape("rowptr", rowptr, ["M + 1"])
    check_shape("col", col, ["K"])
    for name, index in (("rowptr", rowptr), ("col", col)):
        check_integer(name, index)
        check_same_device(name, index, "dense", dense)
    if value is not None:
        check_shape("value", value, [col.numel()])
        check_dtype("value", value, dense.dtype, "`dense`")
    guard_ranges({"rowptr": (rowptr, col.numel() + 1), "col": (col, dense.size(0))})
    if rowptr.device.type == "cpu" and (rowptr.numel() == 0 or rowptr[0] != 0 or bool((rowptr.diff() < 0).any())):
        raise ValueError(f"`rowptr` must begin at 0 and not decrease, got {rowptr.tolist()[:8]}")
    return trusted_csr_sum(rowptr, col, value, dense, impl=impl)


def trusted_csr_sum(
    rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor, *, impl: str | None = None
) -> Tensor:
    """`csr_sum` without checks, for indices that a `RelationalAdj` has validated."""
    out: Tensor = BACKENDS.choose(impl, dense.device, lambda _: fills_gpu(col, dense))(rowptr, col, value, dense)
    return out


def span_sum(
    cache: dict[Any, Any],
    rowptr: Tensor,
    span: tuple[int, int],
    col: Tensor,
    value: Tensor | None,
    dense: Tensor,
    key: object,
) -> Tensor:
    """`csr_sum` over consecutive rows of a larger structure, with the entries ``span``.

    ``rowptr`` counts entries from the start of the whole structure. On a GPU, the `Segments` derived from it are cached
    in ``cache`` under ``key``. With a ``value`` (K, H), H equal parts of the channels have values of their own.
    """
    if value is not None and value.dim() == 2:
        return _sum_heads(cache, rowptr, span, col, value, dense, key)
    if fills_gpu(col, dense) and BACKENDS.kernel_fits(dense.device):
        if ("segments", key) not in cache:
            cache["segments", key] = Segments.cut(rowptr, span[1] - span[0])
        out: Tensor = BACKENDS.kernels.csr_sum(cache["segments", key], col, value, dense, rowptr.numel() - 1)
        return out
    first, last = span
    if last - first == col.numel():
        return embedding_bag(rowptr, col, value, dense)
    part = None if value is None else value[first:last]
    return embedding_bag(rowptr - first if first else rowptr, col[first:last], part, dense)


def _sum_heads(
    cache: dict[Any, Any], rowptr: Tensor, span: tuple[int, int], col: Tensor, value: Tensor, dense: Tensor, key: object
) -> Tensor:
    (first, last), heads = span, value.size(1)
    rows = dense.view(dense.size(0) * heads, dense.size(1) // heads)  # no head is copied: each is every H-th row
    col = col[first:last] * heads if rows.size(0) < 2**31 else col[first:last].long() * heads
    rowptr = rowptr - first if first else rowptr
    rowptr, values = rowptr.to(col.dtype), value[first:last].t().contiguous()
    parts = [span_sum(cache, rowptr, (0, last - first), col + k, values[k], rows, key) for k in range(heads)]
    return torch.cat(parts, dim=1)


def fills_gpu(col: Tensor, dense: Tensor) -> bool:
    """Whether sums over rows of ``dense`` take a GPU longer than the launch of a Triton kernel, if that can run."""
    return col.numel() * max(32, dense.size(1)) >= _FEWEST_NUMBERS and not is_batched(dense)


@dataclass(frozen=True)
class Segments:
    """Rows cut into segments of bounded length: first the first segment of every row, then H further segments.

    The further segments of a row are adjacent. H is an upper bound by the number of entries, which needs no host-device
    sync; unused segments are empty.

    Attributes:
        begin, end: (M + H,) the range of entries of every segment.
        hub: (H,) the row of every further segment.
        hub_begin, hub_end: (H,) at the first further segment of a row, the range of all its further segments, counted
            from segment M; an empty range elsewhere.
        launches: kernels bound to these tensors.
    """

    begin: Tensor
    end: Tensor
    hub: Tensor
    hub_begin: Tensor
    hub_end: Tensor
    launches: Launches = field(default_factory=Launches, init=False, repr=False, compare=False)

    @staticmethod
    def cut(rowptr: Tensor, num_entries: int, longest: int = _LONGEST_SEGMENT) -> Segments:
        """Cuts every row of a structure of at most ``num_entries`` entries, without a host-device sync."""
        begin, end = rowptr[:-1], rowptr[1:]
        if num_entries < longest:
            return Segments.whole(rowptr)
        further = (end - begin - 1).clamp(min=0) // longest  # (M,)
        most = num_entries // longest if begin.numel() else 0
        past = further.cumsum(0)  # further segments of all rows up to and including each row
        piece = torch.arange(most, device=rowptr.device)
        row = torch.searchsorted(past, piece, right=True)
        used, row = row < begin.numel(), row.clamp(max=max(0, begin.numel() - 1))
        number = piece - (past - further)[row] + 1
        start = begin[row] + number * longest
        stop = torch.minimum(start + longest, end[row])
        first = used & (number == 1)
        start, stop, hub_begin, hub_end = (
            torch.where(chosen, place, 0).to(rowptr.dtype)
            for chosen, place in ((used, start), (used, stop), (first, piece), (first, piece + further[row]))
        )
        first_end = torch.minimum(end, begin + longest)
        return Segments(torch.cat([begin, start]), torch.cat([first_end, stop]), row, hub_begin, hub_end)

    def used(self) -> Segments:
        """Without the further segments that no row needs; a host-device sync."""
        num_rows = self.begin.numel() - self.hub.numel()
        number = int((self.begin < self.end)[num_rows:].sum())  # they come first
        begin, end = self.begin[: num_rows + number], self.end[: num_rows + number]
        return Segments(begin, end, self.hub[:number], self.hub_begin[:number], self.hub_end[:number])

    @staticmethod
    def whole(rowptr: Tensor) -> Segments:
        """One segment for every row, however long."""
        return Segments(rowptr[:-1], rowptr[1:], rowptr[:0].long(), rowptr[:0], rowptr[:0])


@dataclass(frozen=True)
class Csr:
    """Entries (row node, relation, other node), sorted by row node and, within a node, by relation.

    Attributes:
        rowptr: (N * R + 1,) where the entries of each pair (node, relation) begin.
        col: (K,) the other node of every entry.
        order: (K,) the index of the entry before sorting.
        num_relations: R.
        cache: structures derived from this one, `pair_col` among them or what it is computed from.
    """

    rowptr: Tensor
    col: Tensor
    order: Tensor
    num_relations: int
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def build(
        row: Tensor,
        relation: Tensor | None,
        col: Tensor,
        size: tuple[int, int],
        num_relations: int,
        few_launches: bool = False,
    ) -> Csr:
        """Sorts entries by (row, relation); the sort is stable, so that sums are reproducible.

        With ``few_launches`` indices are not converted, for a graph so small that this takes longer than it saves.
        """
        num_rows, _ = size
        # int32 if it fits: half the bytes to sort and to read; sizes are tensors under `torch.jit.trace`
        is_short = not few_launches and bool(max(max(size) * num_relations, row.numel()) < 2**31)
        dtype = torch.int32 if is_short else torch.int64
        pair = (row if relation is None else torch.add(relation, row.long(), alpha=num_relations)).to(dtype)
        pair, order = torch.sort(pair, stable=True)
        # as in PyG; `bincount` would need a host-device sync
        rowptr = torch._convert_indices_from_coo_to_csr(pair, num_rows * num_relations, out_int32=is_short)
        col = col.index_select(0, order).to(dtype)
        found = Csr(rowptr, col, order.to(dtype), num_relations, {"pair": None if relation is None else pair})
        if not few_launches:
            _ = found.pair_col
        return found

    @property
    def num_rows(self) -> int:
        """Number of row nodes N."""
        return (self.rowptr.numel() - 1) // self.num_relations

    @property
    def pair_col(self) -> Tensor:
        """(K,) the pair ``other node * R + relation`` of every entry."""
        if "pair_col" not in self.cache:
            pair = self.cache.pop("pair")  # (K,) of the row node, from sorting
            number = self.num_relations
            self.cache["pair_col"] = self.col if pair is None else torch.add(pair % number, self.col, alpha=number)
        found: Tensor = self.cache["pair_col"]
        return found

    @property
    def node_rowptr(self) -> Tensor:
        """(N + 1,) where the entries of each node begin, all relations together."""
        if "node_rowptr" not in self.cache:
            self.cache["node_rowptr"] = self.rowptr[:: self.num_relations].contiguous()
        rowptr: Tensor = self.cache["node_rowptr"]
        return rowptr

    @property
    def places(self) -> tuple[Tensor, Tensor]:
        """(K,) the row node of every entry, and (K,) its position among the entries of that node."""
        start = self.node_rowptr.long()
        row = torch.repeat_interleave(torch.arange(self.num_rows, device=start.device), start.diff())
        return row, torch.arange(row.numel(), device=start.device) - start[row]

    @property
    def active_share(self) -> float:
        """Share of the pairs (node, relation) that have an entry; host-device sync on first use."""
        if "active_share" not in self.cache:
            pairs = self.rowptr.numel() - 1
            self.cache["active_share"] = float(self.rowptr.diff().count_nonzero()) / max(1, pairs)
        share: float = self.cache["active_share"]
        return share

    def nodes_per_block(self, dense: Tensor) -> int:
        """Number of nodes whose sums over rows of ``dense``, for all relations, fit the cache."""
        budget = _GPU_BLOCK_BYTES if dense.is_cuda else _CPU_BLOCK_BYTES * torch.get_num_threads()
        step = budget // max(1, self.num_relations * dense.size(1) * dense.element_size())
        return min(max(1, step), max(1, self.num_rows))

    def is_one_block(self, dense: Tensor) -> bool:
        """Whether the sums over rows of ``dense`` fit one block."""
        return self.nodes_per_block(dense) >= self.num_rows

    def blocks(self, step: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Blocks of ``step`` nodes: ((first node, first entry), (last node + 1, last entry + 1))."""
        if step >= self.num_rows:
            return [((0, 0), (self.num_rows, self.col.numel()))]
        if ("blocks", step) not in self.cache:
            nodes = [*range(0, self.num_rows, step), self.num_rows]
            places = torch.tensor(nodes, device=self.rowptr.device) * self.num_relations
            self.cache["blocks", step] = list(pairwise(zip(nodes, self.rowptr[places].tolist(), strict=True)))
        blocks: list[tuple[tuple[int, int], tuple[int, int]]] = self.cache["blocks", step]
        return blocks

    def sum_pairs(self, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
        """Sums ``dense[col]`` for every pair (node, relation): (N * R, F)."""
        return span_sum(self.cache, self.rowptr, (0, col.numel()), col, value, dense, "pairs")

    def sum_nodes(self, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
        """Sums ``dense[col]`` for every node, over all relations: (N, F)."""
        return span_sum(self.cache, self.node_rowptr, (0, col.numel()), col, value, dense, "nodes")

    def node_segments(self, begin: int = 0, end: int | None = None) -> Segments:
        """The entries of every node cut into `Segments`, of all nodes or of those from ``begin`` to ``end``."""
        end = self.num_rows if end is None else end
        is_whole = begin == 0 and end == self.num_rows
        key = ("segments", "nodes" if is_whole else ("nodes", begin, end))  # of all nodes: shared with `sum_nodes`
        if key not in self.cache:
            rowptr = self.node_rowptr[begin : end + 1]
            is_small = self.col.numel() < _FEWEST_CUT
            self.cache[key] = Segments.whole(rowptr) if is_small else Segments.cut(rowptr, self.col.numel())
        segments: Segments = self.cache[key]
        return segments

    def sums_by_block(self, value: Tensor | None, dense: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Yields blocks of nodes with the sums of ``dense[self.col]``, concatenated over relations: (n, R * F)."""
        step, width = self.nodes_per_block(dense), self.num_relations * dense.size(1)
        for (begin, first), (end, last) in self._spans(step, dense):
            rowptr = self.rowptr[begin * self.num_relations : end * self.num_relations + 1]
            h = span_sum(self.cache, rowptr, (first, last), self.col, value, dense, (step, begin))
            yield slice(begin, end), h.view(end - begin, width)

    def _spans(self, step: int, dense: Tensor) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """`blocks`; with all entries in each if the kernel reads the bounds itself, which saves a host-device sync."""
        if not BACKENDS.kernel_fits(dense.device, lambda _: fills_gpu(self.col, dense)):
            return self.blocks(step)
        nodes = [*range(0, self.num_rows, step), self.num_rows]
        return [((begin, 0), (end, self.col.numel())) for begin, end in pairwise(nodes)]

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Csr:
        """The same structure on another device."""
        rowptr, col, pair_col, order = (index.to(device, non_blocking=non_blocking) for index in self.indices)
        return Csr(rowptr, col, order, self.num_relations, {"pair_col": pair_col})

    @property
    def indices(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four index tensors."""
        return self.rowptr, self.col, self.pair_col, self.order
