"""Sums of messages behind gates that depend on both ends of an edge, without a row in memory for every edge.

For large graphs on a CPU; see `gated_mean` for a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_same_device, check_shape
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
Sums = tuple[Tensor, Tensor]


def reference(receiver: Tensor, sender: Tensor, value: Tensor, edge_rows: Tensor | None, adj: RelationalAdj) -> Sums:
    """The definition, with a row for every edge; plain PyTorch operations."""
    src, dst, relation = adj.src.long(), adj.dst.long(), adj.relation
    relation = torch.zeros_like(src) if relation is None else relation.long()
    gate = receiver[dst] + sender[src, relation if sender.size(1) > 1 else torch.zeros_like(src)]
    gate = (gate if edge_rows is None else gate + edge_rows).sigmoid()
    gate = gate if adj.weight is None else adj.weight[:, None].to(gate.dtype) * gate
    size = adj.size[1]
    return trusted_index_sum(gate * value[src, relation], dst, size), trusted_index_sum(gate, dst, size)


def csr(receiver: Tensor, sender: Tensor, value: Tensor, edge_rows: Tensor | None, adj: RelationalAdj) -> Sums:
    """The same over blocks of sorted edges; the backward pass computes the gates of a block again, twice."""
    sums: Sums = _GatedSums.apply(receiver, sender, value, edge_rows, adj)  # type: ignore[no-untyped-call]
    return sums


BACKENDS = Backends(automatic="csr", reference=reference, scatter=reference, csr=csr)


def gated_sums(
    receiver: Tensor,
    sender: Tensor,
    value: Tensor,
    adj: RelationalAdj,
    edge_rows: Tensor | None = None,
    *,
    impl: str | None = None,
) -> Sums:
    r"""Sums of gated rows and of gates at every receiver.

    .. math:: \mathbf{n}_i = \sum_{e = (j, i)} w_e \, \eta_e \odot \mathbf{v}_{j, r(e)}, \qquad
        \mathbf{d}_i = \sum_{e = (j, i)} w_e \, \eta_e, \qquad
        \eta_e = \sigma(\mathbf{k}_i + \mathbf{q}_{j, r(e)} + \mathbf{a}_e)

    where :math:`\mathbf{k}` is ``receiver``, :math:`\mathbf{q}` is ``sender``, which may be the same for all relations,
    :math:`\mathbf{v}` is ``value``, :math:`\mathbf{a}` is ``edge_rows`` (zero if `None`), and :math:`w` are the weights
    of the graph, which get no gradient here.

    Shapes: ``receiver`` (N_dst, F), ``sender`` (N_src, 1 or R, F), ``value`` (N_src, R, F), ``edge_rows`` (E, F)
    -> (N_dst, F) twice
    """
    if adj.is_soft:
        raise ValueError("`adj` must have one relation for each edge, got soft types")
    channels = value.size(-1)
    check_shape("receiver", receiver, [adj.size[1], channels])
    check_shape("sender", sender, [adj.size[0], 1 if sender.size(1) == 1 else adj.num_relations, channels])
    check_shape("value", value, [adj.size[0], adj.num_relations, channels])
    if edge_rows is not None:
        check_shape("edge_rows", edge_rows, [adj.num_edges, channels])
    check_floating("value", value)
    check_same_device("value", value, "adj", adj.edge_index)
    sums: Sums = BACKENDS.choose(impl, value.device)(receiver, sender, value, edge_rows, adj)
    return sums


def sums_in_blocks_pay(adj: RelationalAdj, channels: int) -> bool:
    """Whether to take `gated_sums`, for speed and memory, instead of a row for every edge.

    Not for soft types and for weights with a gradient, which it does not support; nor under `torch.compile` and
    `torch.func`. Not on a GPU: on an H200, 14M edges, 32 channels, blocks take 157 ms where rows of all edges take 62.
    """
    if adj.num_edges * channels < _LEAST or adj.is_soft or adj.edge_index.is_cuda or is_transformed():
        return False
    if active_pairs_pay(adj):
        return False
    return adj.edge_weight is None or not adj.edge_weight.requires_grad


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
        ctx: Any, receiver: Tensor, sender: Tensor, value: Tensor, edge_rows: Tensor | None, adj: RelationalAdj
    ) -> Sums:
        ctx.save_for_backward(receiver, sender, value, edge_rows)
        ctx.adj = adj
        numerator, denominator = torch.empty_like(receiver), torch.empty_like(receiver)
        values = value.flatten(0, 1)
        for block in _blocks(adj.incoming, adj.dst, value.size(-1), is_incoming=True):
            gate, weight = _gates(block, receiver, sender, edge_rows, adj)
            gate = gate if weight is None else gate.mul_(weight)
            denominator[block.nodes] = block.sum_nodes(gate)
            numerator[block.nodes] = block.sum_nodes(gate.mul_(values.index_select(0, block.pair)))
        return numerator, denominator

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        adj: RelationalAdj = ctx.adj
        receiver, sender, value, edge_rows = inputs = ctx.saved_tensors
        if torch.is_grad_enabled() or any(is_batched(grad) for grad in grads):
            return *plain_gradients(partial(reference, adj=adj), inputs, grads, ctx.needs_input_grad), None
        grad_numerator, grad_denominator = grads
        values = value.flatten(0, 1)

        def again(block: _Block) -> tuple[Tensor, Tensor]:
            """The gradient of the sums before the sigmoid, and that of the values, of every edge of a block."""
            gate, weight = _gates(block, receiver, sender, edge_rows, adj)
            grad_value = grad_numerator.index_select(0, block.dst)
            grad_gate = values.index_select(0, block.pair).mul_(grad_value)
            grad_gate.add_(grad_denominator.index_select(0, block.dst))
            if weight is not None:
                grad_gate.mul_(weight)
                grad_value.mul_(weight)
            grad_value.mul_(gate)
            return torch.ops.aten.sigmoid_backward(grad_gate, gate), grad_value

        grad_edges = torch.empty_like(edge_rows) if ctx.needs_input_grad[3] else None
        grad_receiver = torch.empty_like(receiver)
        for block in _blocks(adj.incoming, adj.dst, value.size(-1), is_incoming=True):
            grad_sum, _ = again(block)
            grad_receiver[block.nodes] = block.sum_nodes(grad_sum)
            if grad_edges is not None:
                grad_edges.index_copy_(0, block.edge.long(), grad_sum)
        grad_sender, grad_value = torch.empty_like(sender), torch.empty_like(value)
        for block in _blocks(adj.outgoing, adj.src, value.size(-1), is_incoming=False):
            grad_sum, grad_rows = again(block)
            grad_value[block.nodes] = block.sum_pairs(grad_rows).view_as(grad_value[block.nodes])
            rows = block.sum_nodes(grad_sum) if sender.size(1) == 1 else block.sum_pairs(grad_sum)
            grad_sender[block.nodes] = rows.view_as(grad_sender[block.nodes])
        return grad_receiver, grad_sender, grad_value, grad_edges, None


def _gates(
    block: _Block, receiver: Tensor, sender: Tensor, edge_rows: Tensor | None, adj: RelationalAdj
) -> tuple[Tensor, Tensor | None]:
    """The gates of the edges of a block without their weights, and the weights, (n, 1)."""
    gate = receiver.index_select(0, block.dst)
    gate.add_(sender.flatten(0, 1).index_select(0, block.src if sender.size(1) == 1 else block.pair))
    if edge_rows is not None:
        gate.add_(edge_rows.index_select(0, block.edge))
    weight = adj.weight
    return gate.sigmoid_(), None if weight is None else weight.index_select(0, block.edge)[:, None].to(gate.dtype)
