"""One row per entry: gathered from nodes, multiplied, and summed at the receiver.

An *entry* is an edge in one relation, see `RelationalAdj`; entry k goes from a sender to a receiver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism._checks import (
    check_floating,
    check_integer,
    check_same_device,
    check_shape,
    check_tensor,
    check_whole,
    guard_ranges,
)
from graphprism.ops.backends import Backends, is_transformed

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj

# Numbers gathered per chunk of `entry_dot`: on the CPU they stay in the cache, on a GPU small beside the matrices.
_CPU_CHUNK, _GPU_CHUNK = 1 << 17, 1 << 25


def check_graph(adj: object) -> None:
    """Raises `TypeError` unless ``adj`` is a prepared graph."""
    if not hasattr(adj, "relational_linear"):
        raise TypeError(f"`adj` must be a RelationalAdj or another prepared graph, got {type(adj).__name__}")


def at_senders(h: Tensor, adj: PreparedGraph) -> Tensor:
    """Gathers, for every entry, its sender's row (for its relation): (N, R, ...) -> (K, ...) or (N, F) -> (K, F)."""
    check_graph(adj)
    return adj.at_senders(h)


def at_receivers(h: Tensor, adj: PreparedGraph) -> Tensor:
    """Gathers, for every entry, its receiver's row (for its relation): (N, R, ...) -> (K, ...) or (N, F) -> (K, F)."""
    check_graph(adj)
    return adj.at_receivers(h)


def reference(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """The definition of `entry_sum`, one node at a time; slow on purpose and never optimised."""
    sums = [rows[adj.dst == node].sum(dim=0) for node in range(adj.size[1])]
    return torch.stack(sums) if sums else rows[:0]


def scatter(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """`entry_sum` by ``index_add``."""
    return trusted_index_sum(rows, adj.dst, adj.size[1])


def csr(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """`entry_sum` over sorted entries, without atomics; its gradient is a gather."""
    out: Tensor = _SortedSum.apply(rows, adj, False)  # type: ignore[no-untyped-call]
    return out


def pair_sum(rows: Tensor, adj: RelationalAdj) -> Tensor:
    """Sums rows of entries per pair (receiver, relation) over sorted entries: (K, F) -> (N_dst * R, F)."""
    out: Tensor = _SortedSum.apply(rows, adj, True)  # type: ignore[no-untyped-call]
    return out


class _SortedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, adj: RelationalAdj, by_pair: bool) -> Tensor:
        ctx.adj, ctx.by_pair = adj, by_pair
        if by_pair:
            return adj.incoming.sum_pairs(adj.incoming.order, None, rows)
        return adj.by_receiver.sum_nodes(adj.by_receiver.order, None, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.index_select(0, ctx.adj.pair_dst if ctx.by_pair else ctx.adj.dst), None, None


BACKENDS = Backends(automatic="csr", reference=reference, scatter=scatter, csr=csr)


def gather_nodes(h: Tensor, adj: RelationalAdj, *, senders: bool) -> Tensor:
    """`at_senders` or `at_receivers` without checks; its gradient is a sum over sorted entries, without atomics.

    One core, 292k entries of 42k nodes, 64 channels, forward and backward: 60 ms, against 92 ms of ``h[adj.src]``.
    """
    if not (h.requires_grad and torch.is_grad_enabled()) or is_transformed():
        rows = h if h.dim() == 2 else h.flatten(0, 1)
        return rows[_index(h, adj, senders)]
    out: Tensor = _Gather.apply(h, adj, senders)  # type: ignore[no-untyped-call]
    return out


def _index(h: Tensor, adj: RelationalAdj, senders: bool) -> Tensor:
    """(K,) the row of ``h`` that every entry reads: of its node, or of its pair (node, relation)."""
    if h.dim() == 2:
        return adj.src if senders else adj.dst
    return adj.pair_src if senders else adj.pair_dst


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, adj: RelationalAdj, senders: bool) -> Tensor:
        ctx.adj, ctx.senders, ctx.shape = adj, senders, h.shape
        rows = h if h.dim() == 2 else h.flatten(0, 1)
        return rows.index_select(0, _index(h, adj, senders))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        way = ctx.adj.transpose() if ctx.senders else ctx.adj
        rows = grad if grad.dim() == 2 else grad.flatten(1)  # batched gradients have no `flatten`
        sums = csr(rows, way) if len(ctx.shape) == 2 else pair_sum(rows, way)
        return sums.view(ctx.shape), None, None


def entry_sum(rows: Tensor, adj: PreparedGraph, *, impl: str | None = None) -> Tensor:
    r"""Sums one row per entry at its receiver: :math:`\mathbf{y}_i = \sum_{k = (j, i)} \mathbf{m}_k`.

    The weights of ``adj`` are not used.

    Shapes: ``rows`` (K, F) -> (N_dst, F)
    """
    check_graph(adj)
    return adj.entry_sum(rows, impl)


def dispatch_entry_sum(rows: Tensor, adj: RelationalAdj, impl: str | None) -> Tensor:
    """`entry_sum` on a `RelationalAdj`."""
    check_shape("rows", rows, [adj.src.numel(), "F"])
    check_floating("rows", rows)
    check_same_device("rows", rows, "adj", adj.edge_index)
    out: Tensor = BACKENDS.choose(impl, rows.device)(rows, adj)
    return out


def entry_dot(left: Tensor, left_row: Tensor, right: Tensor, right_row: Tensor, heads: int = 1) -> Tensor:
    r"""Computes :math:`\langle \mathbf{a}_{l_k}, \mathbf{b}_{r_k} \rangle` for every entry :math:`k`.

    It is the gradient of a weighted sum with respect to its weights. With several heads there is a product for each of
    H equal parts of the channels.

    Shapes: ``left`` (N, F), ``left_row`` (K,), ``right`` (M, F), ``right_row`` (K,) -> (K,) or (K, H)
    """
    chunk = max(1, (_GPU_CHUNK if left.is_cuda else _CPU_CHUNK) // max(1, left.size(1)))
    rows = zip(left_row.split(chunk), right_row.split(chunk), strict=True)
    # one core, 292k rows of 64 channels: 26 ms, against 90 ms of `left[a]` in chunks beyond the cache
    # in place: rows beyond 128 kB come from new pages; ``left`` is the gradient, which may be batched
    products = (left.index_select(0, a).mul_(right.index_select(0, b)) for a, b in rows)
    sums = [(each if heads == 1 else each.unflatten(1, (heads, -1))).sum(dim=-1) for each in products]
    return sums[0] if len(sums) == 1 else torch.cat(sums)


def index_sum(rows: Tensor, index: Tensor, size: int) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k : c_k = i} \mathbf{x}_k`; half precisions are summed in float32.

    Shapes: ``rows`` (K, ...), ``index`` (K,) -> (size, ...)
    """
    check_tensor("rows", rows)
    check_shape("index", index, [rows.size(0) if rows.dim() else "K"])
    check_integer("index", index)
    check_same_device("index", index, "rows", rows)
    check_whole("size", size)
    guard_ranges({"index": (index, size)})
    return trusted_index_sum(rows, index, size)


def trusted_index_sum(rows: Tensor, index: Tensor, size: int) -> Tensor:
    """`index_sum` without checks, for an index that a `RelationalAdj` has validated."""
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    return wide.new_zeros(size, *rows.shape[1:]).index_add(0, index, wide).to(rows.dtype)
