r"""`relational_linear` by one sparse and one matrix product, block by block; gradients by the transposed structure.

With :math:`\mathbf{M}_r` the weighted adjacency matrix of relation :math:`r`, the output is
:math:`\sum_r \mathbf{M}_r \mathbf{X} \mathbf{W}_r`. Neither direction ever holds (N, R, F) numbers: a block of rows
:math:`[\mathbf{M}_r \mathbf{X}]_r` is summed, multiplied by the stacked weights and forgotten, and the backward pass
does the same with :math:`[\mathbf{M}_r^\top \mathbf{G}]_r`, which gives both gradients. Only ``x`` is kept for it.
Measured on two cores (169k nodes, 1.17M edges, 64 channels, forward and backward): 130 ms, where the matrix product
alone takes 153 ms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.csr import Csr
from graphprism.ops.csr_sum import csr_sum
from graphprism.ops.entry_dot import entry_dot
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate.csr import relational_aggregate
from graphprism.ops.relational_linear.cost import transform_first


def relational_linear(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """Both products with their own backward pass."""
    out: Tensor = _RelationalLinear.apply(x, weight, adj.weight, adj)  # type: ignore[no-untyped-call]
    return out


class _RelationalLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(x, weight, entry_weight)
        ctx.adj = adj
        num_relations, in_channels, out_channels = weight.shape
        value = adj.values("incoming", entry_weight, x.dtype)
        csr = adj.incoming
        if transform_first(adj, csr.col.numel(), in_channels, out_channels):
            h = _transform(x, weight).view(-1, out_channels)
            return csr.sum_nodes(csr.pair_col, value, h)
        out = x.new_empty(adj.size[1], out_channels)
        stacked = weight.reshape(num_relations * in_channels, out_channels)
        for begin, end, h in _pair_rows(csr, value, x):
            torch.mm(h, stacked, out=out[begin:end])
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, entry_weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            return *_differentiable_backward(grad, x, weight, entry_weight, adj, ctx.needs_input_grad), None
        need_x, need_weight, need_entry_weight, _ = ctx.needs_input_grad
        grad = grad.contiguous()
        grad_x = torch.empty_like(x) if need_x else None
        grad_weight = None
        if need_x or need_weight:
            grad_weight = _products_of_transpose(grad, x, weight, entry_weight, adj, grad_x, need_weight)
        grad_entry_weight = None
        if need_entry_weight:
            h = _transform(x, weight).view(-1, weight.size(2))
            grad_entry_weight = entry_dot(grad, adj.dst, h, adj.pair_src).to(entry_weight.dtype)
        return grad_x, grad_weight, grad_entry_weight, None


def _products_of_transpose(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    grad_x: Tensor | None,
    need_weight: bool,
) -> Tensor | None:
    """Fills ``grad_x`` and returns the gradient of ``weight`` from one pass over the transposed graph."""
    num_relations, in_channels, out_channels = weight.shape
    value = adj.values("outgoing", entry_weight, grad.dtype)
    stacked = weight.transpose(1, 2).reshape(num_relations * out_channels, in_channels)
    # summed over blocks in float32 at least: bfloat16 would lose what later blocks add
    accumulate = torch.promote_types(x.dtype, torch.float32)
    total = x.new_zeros(in_channels, num_relations * out_channels, dtype=accumulate)
    for begin, end, h in _pair_rows(adj.outgoing, value, grad):
        if grad_x is not None:
            torch.mm(h, stacked, out=grad_x[begin:end])
        if need_weight and accumulate == x.dtype:
            total.addmm_(x[begin:end].t(), h)
        elif need_weight:
            total += x[begin:end].t() @ h
    if not need_weight:
        return None
    return total.to(weight.dtype).view(in_channels, num_relations, out_channels).transpose(0, 1).contiguous()


def _pair_rows(csr: Csr, value: Tensor | None, dense: Tensor) -> Any:
    """Yields runs of nodes with the sums of their neighbours, relations side by side: (begin, end, (n, R * F))."""
    channels = dense.size(1)
    blocks = csr.blocks(csr.num_relations * channels * dense.element_size())
    if len(blocks) == 1:
        yield 0, csr.num_rows, csr.sum_pairs(csr.col, value, dense).view(csr.num_rows, csr.num_relations * channels)
        return
    for begin, end, first, last in blocks:
        rowptr = csr.rowptr[begin * csr.num_relations : end * csr.num_relations + 1]
        rowptr = rowptr - first
        part = None if value is None else value[first:last]
        h = csr_sum(rowptr, csr.col[first:last], part, dense)
        yield begin, end, h.view(end - begin, csr.num_relations * channels)


def _transform(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.transpose(0, 1).reshape(weight.size(1), -1)


def _differentiable_backward(
    grad: Tensor, x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The same three gradients out of products that have gradients themselves."""
    grad_x = grad_weight = grad_entry_weight = None
    back = adj.transpose()
    if needed[0]:
        grad_x = _RelationalLinear.apply(grad, weight.transpose(1, 2), entry_weight, back)  # type: ignore[no-untyped-call]
    if needed[1]:
        grad_weight = torch.einsum("nf,nro->rfo", x, relational_aggregate(grad, back, entry_weight))
    if needed[2]:
        h = _transform(x, weight).view(-1, weight.size(2))
        grad_entry_weight = (grad[adj.dst] * h[adj.pair_src]).sum(dim=1)
    return grad_x, grad_weight, grad_entry_weight
