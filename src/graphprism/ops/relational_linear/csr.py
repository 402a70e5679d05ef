r"""`relational_linear` by a sparse and a matrix product, block by block; gradients by the transposed structure.

With :math:`\mathbf{M}_r` the weighted adjacency matrix of relation :math:`r`, the output is
:math:`\sum_r \mathbf{M}_r \mathbf{X} \mathbf{W}_r`. A block of rows of :math:`\mathbf{M}_r \mathbf{X}` is summed,
multiplied by :math:`\mathbf{W}_r` while it is in the cache, and forgotten; the backward pass does the same with
:math:`\mathbf{M}_r^\top \mathbf{G}`, which gives both gradients. Neither holds (N, R, F) numbers, unless the layer
multiplies first because that is cheaper, and only ``x`` is kept.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.entry_dot import entry_dot
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_aggregate.csr import relational_aggregate
from graphprism.ops.relational_linear import active_pairs, all_pairs
from graphprism.ops.relational_linear.cost import fuses, leave_out_empty_pairs, transform_first
from graphprism.ops.relational_transform import relational_transform

try:
    from graphprism.ops.relational_linear import fused
except ImportError:  # triton comes with PyTorch's CUDA builds, and only there; or it is too old
    fused = None  # type: ignore[assignment]


def relational_linear(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """Both products with their own backward pass."""
    return _apply(x, weight, adj.weight, adj)


def _apply(x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj) -> Tensor:
    out: Tensor = _RelationalLinear.apply(x, weight, entry_weight, adj)  # type: ignore[no-untyped-call]
    return out


class _RelationalLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(x, weight, entry_weight)
        ctx.adj = adj
        in_channels, out_channels = weight.shape[1:]
        csr = adj.incoming
        at_once = fused is not None and fuses(csr, x, weight)
        before = transform_first(adj, csr.col.numel(), in_channels, out_channels, at_once)
        shrinks = before and out_channels < in_channels  # then gathering less is worth more than multiplying less
        if not shrinks and at_once:
            return fused.forward(x, weight, entry_weight, adj)
        if not shrinks and leave_out_empty_pairs(csr, in_channels, out_channels):
            return active_pairs.forward(x, weight, entry_weight, adj)
        if before:
            value = adj.values(csr.order, entry_weight, x.dtype)
            return csr.sum_nodes(csr.pair_col, value, relational_transform(x, weight).flatten(0, 1))
        return all_pairs.forward(x, weight, entry_weight, adj)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, entry_weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        if torch.is_grad_enabled():  # a gradient of this gradient is wanted
            return *_differentiable_backward(grad, x, weight, entry_weight, adj, ctx.needs_input_grad), None
        need_x, need_weight, need_entry_weight, _ = ctx.needs_input_grad
        grad = grad.contiguous()
        grad_x = grad_weight = grad_entry_weight = None
        if need_x or need_weight:
            form = _backward_form(adj, grad, weight)
            grad_x, grad_weight = form.backward(grad, x, weight, entry_weight, adj, need_x, need_weight)
        if need_entry_weight:
            h = relational_transform(x, weight).flatten(0, 1)
            grad_entry_weight = entry_dot(grad, adj.dst, h, adj.pair_src).to(entry_weight.dtype)
        return grad_x, grad_weight, grad_entry_weight, None


def _backward_form(adj: RelationalAdj, grad: Tensor, weight: Tensor) -> ModuleType:
    if fused is not None and fuses(adj.outgoing, grad, weight):
        return fused
    return active_pairs if leave_out_empty_pairs(adj.outgoing, *weight.shape[1:]) else all_pairs


def _differentiable_backward(
    grad: Tensor, x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The same three gradients out of products that have gradients themselves."""
    grad_x = grad_weight = grad_entry_weight = None
    back = adj.transpose()
    if needed[0]:
        grad_x = _apply(grad, weight.transpose(1, 2), entry_weight, back)
    if needed[1]:
        grad_weight = torch.einsum("nf,nro->rfo", x, relational_aggregate(grad, back, entry_weight))
    if needed[2]:
        h = relational_transform(x, weight).flatten(0, 1)
        grad_entry_weight = (grad[adj.dst] * h[adj.pair_src]).sum(dim=1)
    return grad_x, grad_weight, grad_entry_weight
