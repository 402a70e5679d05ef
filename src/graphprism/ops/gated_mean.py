"""Means of messages weighted by gates that depend on both ends of an edge, without a row in memory for every edge.

`MRSGatedGCNConv` uses them where `gated_mean_pays`: ``csr`` for large graphs on a CPU, ``triton`` on a GPU. The same
formula on a `PaddedAdj`, for runs in lockstep, is `graphprism.ops.batched.gated_mean`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from graphprism._checks import check_dtype, check_floating, check_same_device, check_shape
from graphprism.ops.backends import Backends, is_batched, is_transformed, plain_gradients
from graphprism.ops.csr import Csr, span_sum
from graphprism.ops.entries import trusted_index_sum
from graphprism.ops.pair_rows import active_pairs_pay

if TYPE_CHECKING:
    from graphprism.ops.relational_adj import RelationalAdj

# Numbers of one block of edges, which stay in the cache.
_BLOCK = 1 << 18
# Numbers of all edges above which blocks are faster than a row for every edge, whose gates are computed only once.
_LEAST = 1 << 20
Pair = tuple[Tensor, Tensor]


class LinearMap(NamedTuple):
    """A linear map: ``weight`` (F_in, F_out) and ``bias`` (F_out,)."""

    weight: Tensor
    bias: Tensor

    def rows(self, x: Tensor) -> Tensor:
        """The map of every row, (N, F_in) -> (N, F_out)."""
        return torch.addmm(self.bias, x, self.weight)


class GateMaps(NamedTuple):
    """The maps of nodes: ``receivers`` F_dst -> F, ``gates`` F_src -> F or R * F, ``messages`` F_src -> R * F."""

    receivers: LinearMap
    gates: LinearMap
    messages: LinearMap

    @property
    def num_gates(self) -> int:
        """1 for a gate that all relations share, or R."""
        return max(1, self.gates.bias.numel() // max(1, self.receivers.bias.numel()))

    def rows(self, x: Pair, num_relations: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of the receivers (N_dst, F), of the senders' gates (N_src, 1 or R, F) and messages (N_src, R, F)."""
        gates, messages, receivers = self.gates.rows(x[0]), self.messages.rows(x[0]), self.receivers.rows(x[1])
        channels = receivers.size(1)
        gates = gates.unflatten(1, (self.num_gates, channels))
        return receivers, gates, messages.unflatten(1, (num_relations, channels))


def reference(x: Pair, adj: RelationalAdj, maps: GateMaps, edge_rows: Tensor | None, eps: float) -> Tensor:
    """The definition, with rows for every edge; plain PyTorch operations."""
    numerator, denominator = sums_reference(*maps.rows(x, adj.num_relations), edge_rows, adj.weight, adj)
    return numerator / (denominator + eps)


def sums_reference(
    receiver: Tensor, sender: Tensor, value: Tensor, edge_rows: Tensor | None, weight: Tensor | None, adj: RelationalAdj
) -> Pair:
    """Sums of gated messages and of gates at every receiver, from the rows of `GateMaps.rows`."""
    src, dst, relation = adj.src.long(), adj.dst.long(), adj.relation
    relation = torch.zeros_like(src) if relation is None else relation.long()
    gate = receiver[dst] + sender[src, relation if sender.size(1) > 1 else torch.zeros_like(src)]
    gate = (gate if edge_rows is None else gate + edge_rows).sigmoid()
    gate = gate if weight is None else weight[:, None].to(gate.dtype) * gate
    size = adj.size[1]
    return trusted_index_sum(gate * value[src, relation], dst, size), trusted_index_sum(gate, dst, size)


def csr(x: Pair, adj: RelationalAdj, maps: GateMaps, edge_rows: Tensor | None, eps: float) -> Tensor:
    """The sums over blocks of sorted edges; the backward pass computes the gates of a block again, twice."""
    rows = maps.rows(x, adj.num_relations)
    numerator, denominator = _GatedSums.apply(*rows, edge_rows, adj.weight, adj)  # type: ignore[no-untyped-call]
    out: Tensor = numerator / (denominator + eps)
    return out


BACKENDS = Backends(
    automatic="csr",
    reference=reference,
    scatter=reference,
    csr=csr,
    triton="graphprism.ops.kernels.gated_mean:gated_mean",
)


def gated_mean(
    x: Pair,
    adj: RelationalAdj,
    maps: GateMaps,
    edge_rows: Tensor | None = None,
    *,
    eps: float,
    impl: str | None = None,
) -> Tensor:
    r"""The mean of messages, each channel weighted by a gate of receiver, sender and edge.

    .. math:: \mathbf{y}_i = \frac{\sum_{e = (j, i)} w_e \, \eta_e \odot \mathbf{m}_{j, r(e)}}
        {\sum_{e = (j, i)} w_e \, \eta_e + \epsilon}, \qquad
        \eta_e = \sigma(\mathbf{d}_i + \mathbf{s}_{j, r(e)} + \mathbf{a}_e)

    where :math:`\mathbf{d}`, :math:`\mathbf{s}` and :math:`\mathbf{m}` are the rows of ``maps``: of its ``receivers``,
    of its ``gates``, which all relations may share, and of its ``messages``; :math:`\mathbf{a}` is ``edge_rows`` (zero
    if `None`), and :math:`w` are the weights of the graph, whose types must be hard. The ``triton`` backend takes no
    ``edge_rows``; the maps are part of the op because it computes the rows of senders again in backward.

    Shapes: ``x`` (N_src, F_src) and (N_dst, F_dst), ``edge_rows`` (E, F) -> (N_dst, F)
    """
    device = x[0].device
    if torch.is_autocast_enabled(device.type) and x[0].dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device.type)
        x = x[0].to(dtype), x[1].to(dtype)
        maps = GateMaps(*(LinearMap(each.weight.to(dtype), each.bias.to(dtype)) for each in maps))
        edge_rows = None if edge_rows is None else edge_rows.to(dtype)
    _check(x, adj, maps, edge_rows)
    mean = BACKENDS.choose(impl, device, lambda _: edge_rows is None)
    with without_autocast(device):
        out: Tensor = mean(x, adj, maps, edge_rows, eps)
    return out


def gated_mean_pays(adj: RelationalAdj, channels: int, has_edge_rows: bool) -> bool:
    """Whether to take `gated_mean`, for speed and memory, instead of plain operations with rows for every edge.

    Not for soft types, nor under `torch.compile` and `torch.func`. On a GPU with kernels only: on an H200, 14M edges,
    32 channels, blocks take 157 ms where rows of all edges take 62.
    """
    if adj.is_soft or is_transformed():
        return False
    is_large = adj.device.type == "cpu" and adj.num_edges * channels >= _LEAST
    if not is_large and not BACKENDS.kernel_fits(adj.device, lambda _: not has_edge_rows):
        return False
    return not active_pairs_pay(adj)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Turns autocast off; no-op where it is off, since entering it takes as long as a small kernel."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def _check(x: Pair, adj: RelationalAdj, maps: GateMaps, edge_rows: Tensor | None) -> None:
    if adj.is_soft:
        raise ValueError("`adj` must have hard types, one per edge, got soft ones")
    for end, rows in enumerate(x):
        check_shape(f"x[{end}]", rows, [adj.size[end], "F"])
        check_floating(f"x[{end}]", rows)
        check_same_device(f"x[{end}]", rows, "adj", adj.edge_index)
    channels, num_gates = maps.receivers.bias.numel(), 1 if maps.num_gates == 1 else adj.num_relations
    widths = channels, num_gates * channels, adj.num_relations * channels
    for name, each, end, width in zip(maps._fields, maps, (1, 0, 0), widths, strict=True):
        check_shape(f"{name}.weight", each.weight, [x[end].size(1), width])
        check_shape(f"{name}.bias", each.bias, [width])
        check_dtype(f"{name}.weight", each.weight, x[0].dtype, "`x[0]`")
    if edge_rows is not None:
        check_shape("edge_rows", edge_rows, [adj.num_edges, channels])
        check_dtype("edge_rows", edge_rows, x[0].dtype, "`x[0]`")


@dataclass
class _Block:
    """Consecutive edges of a sorted structure: rows ``nodes`` of it, and by edge both ends, pair and number."""

    nodes: slice
    rowptr: Tensor
    src: Tensor
    dst: Tensor
    pair: Tensor
    edge: Tensor
    key: tuple[str, int, int]
    csr: Csr

    def sum_nodes(self, rows: Tensor) -> Tensor:
        """Sums rows of edges at their row node."""
        return self._sum(rows, self.rowptr[:: self.csr.num_relations].contiguous(), "nodes")

    def sum_pairs(self, rows: Tensor) -> Tensor:
        """Sums rows of edges at their pair (row node, relation)."""
        return self._sum(rows, self.rowptr, "pairs")

    def _sum(self, rows: Tensor, rowptr: Tensor, what: str) -> Tensor:
        place = torch.arange(rows.size(0), device=rows.device, dtype=rowptr.dtype)
        return span_sum(self.csr.cache, rowptr, (0, rows.size(0)), place, None, rows, (*self.key, what))


def _blocks(csr: Csr, row: Tensor, channels: int, *, is_incoming: bool) -> Iterator[_Block]:
    """Blocks of whole nodes with about as many edges as fit; ``row`` (K,) is the row node of every edge as given."""
    budget = _BLOCK // max(1, channels)
    step = max(1, budget * csr.num_rows // max(1, csr.col.numel()))
    num_relations = csr.num_relations
    for (begin, first), (end, last) in csr.blocks(step):
        rowptr = csr.rowptr[begin * num_relations : end * num_relations + 1] - first
        edge, other = csr.order[first:last], csr.col[first:last]
        own = row.index_select(0, edge).to(csr.pair_col.dtype)
        if is_incoming:
            src, dst, pair = other, own, csr.pair_col[first:last]
        else:
            # the relation of an edge is that of its pair at the other end
            relation = csr.pair_col[first:last] - other * num_relations if num_relations > 1 else 0
            src, dst, pair = own, other, own * num_relations + relation
        yield _Block(slice(begin, end), rowptr, src, dst, pair, edge, ("gated", step, begin), csr)


class _GatedSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        receiver: Tensor,
        sender: Tensor,
        value: Tensor,
        edge_rows: Tensor | None,
        weight: Tensor | None,
        adj: RelationalAdj,
    ) -> Pair:
        ctx.save_for_backward(receiver, sender, value, edge_rows, weight)
        ctx.adj = adj
        numerator, denominator = torch.empty_like(receiver), torch.empty_like(receiver)
        values = value.flatten(0, 1)
        for block in _blocks(adj.incoming, adj.dst, value.size(-1), is_incoming=True):
            gate, scale = _gates(block, receiver, sender, edge_rows, weight)
            gate = gate if scale is None else gate.mul_(scale)
            denominator[block.nodes] = block.sum_nodes(gate)
            numerator[block.nodes] = block.sum_nodes(gate.mul_(values.index_select(0, block.pair)))
        return numerator, denominator

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        adj: RelationalAdj = ctx.adj
        receiver, sender, value, edge_rows, weight = inputs = ctx.saved_tensors
        if torch.is_grad_enabled() or any(is_batched(grad) for grad in grads):
            return *plain_gradients(partial(sums_reference, adj=adj), inputs, grads, ctx.needs_input_grad), None
        grad_numerator, grad_denominator = grads
        values = value.flatten(0, 1)

        def again(block: _Block, grad_weight: Tensor | None) -> tuple[Tensor, Tensor]:
            """The gradient of the sums before the sigmoid, and that of the values, of every edge of a block."""
            gate, scale = _gates(block, receiver, sender, edge_rows, weight)
            grad_value = grad_numerator.index_select(0, block.dst)
            grad_gate = values.index_select(0, block.pair).mul_(grad_value)
            grad_gate.add_(grad_denominator.index_select(0, block.dst))
            if grad_weight is not None:
                products = torch.linalg.vecdot(grad_gate, gate).to(grad_weight.dtype)
                grad_weight.index_copy_(0, block.edge.long(), products)
            if scale is not None:
                grad_gate.mul_(scale)
                grad_value.mul_(scale)
            grad_value.mul_(gate)
            return torch.ops.aten.sigmoid_backward(grad_gate, gate), grad_value

        grad_edges = torch.empty_like(edge_rows) if ctx.needs_input_grad[3] else None
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[4] else None
        grad_receiver = torch.empty_like(receiver)
        for block in _blocks(adj.incoming, adj.dst, value.size(-1), is_incoming=True):
            grad_sum, _ = again(block, grad_weight)
            grad_receiver[block.nodes] = block.sum_nodes(grad_sum)
            if grad_edges is not None:
                grad_edges.index_copy_(0, block.edge.long(), grad_sum)
        grad_sender, grad_value = torch.empty_like(sender), torch.empty_like(value)
        for block in _blocks(adj.outgoing, adj.src, value.size(-1), is_incoming=False):
            grad_sum, grad_rows = again(block, None)
            grad_value[block.nodes] = block.sum_pairs(grad_rows).view_as(grad_value[block.nodes])
            rows = block.sum_nodes(grad_sum) if sender.size(1) == 1 else block.sum_pairs(grad_sum)
            grad_sender[block.nodes] = rows.view_as(grad_sender[block.nodes])
        return grad_receiver, grad_sender, grad_value, grad_edges, grad_weight, None


def _gates(
    block: _Block, receiver: Tensor, sender: Tensor, edge_rows: Tensor | None, weight: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The gates of the edges of a block without their weights, and the weights, (n, 1)."""
    gate = receiver.index_select(0, block.dst)
    gate.add_(sender.flatten(0, 1).index_select(0, block.src if sender.size(1) == 1 else block.pair))
    if edge_rows is not None:
        gate.add_(edge_rows.index_select(0, block.edge))
    return gate.sigmoid_(), None if weight is None else weight.index_select(0, block.edge)[:, None].to(gate.dtype)
