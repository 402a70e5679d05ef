"""Both passes of `relational_linear` over all pairs (node, relation), empty ones included: one matrix product a block.

Few channels, or few empty pairs: a product with zeros is cheaper than leaving them out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_linear.add_product import add_product, wide_zeros


def forward(x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj) -> Tensor:
    """Sums the neighbours of a block of nodes, relations side by side, and multiplies by the stacked matrices."""
    csr = adj.incoming
    out = x.new_empty(adj.size[1], weight.size(2))
    stacked = weight.flatten(0, 1)
    for nodes, h in csr.sums_by_block(adj.values(csr.order, entry_weight, x.dtype), x):
        torch.mm(h, stacked, out=out[nodes])
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of ``x`` and ``weight`` from one pass over the reversed edges."""
    num_relations, in_channels, out_channels = weight.shape
    csr = adj.outgoing
    stacked = weight.transpose(1, 2).flatten(0, 1)
    grad_x = torch.empty_like(x) if need_x else None
    total = wide_zeros(x, in_channels, num_relations * out_channels)
    for nodes, h in csr.sums_by_block(adj.values(csr.order, entry_weight, grad.dtype), grad):
        if grad_x is not None:
            torch.mm(h, stacked, out=grad_x[nodes])
        if need_weight:
            add_product(total, x[nodes].t(), h)
    if not need_weight:
        return grad_x, None
    return grad_x, total.to(weight.dtype).view(in_channels, num_relations, out_channels).transpose(0, 1).contiguous()
