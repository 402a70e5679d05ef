"""`relational_aggregate` sums neighbours per relation; `relational_sum` sums rows that senders hold per relation.

The gradient of each is the other one on the reversed edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_same_device, check_shape, check_tensor
from graphprism.ops.backends import Backends
from graphprism.ops.entries import check_graph, entry_dot, trusted_index_sum

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj


def aggregate_reference(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """The definition of `relational_aggregate`, one relation at a time; slow on purpose and never optimised."""
    out = []
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = x[adj.src[chosen]]
        if weight is not None:
            message = weight[chosen, None].to(x.dtype) * message
        out.append(x.new_zeros(adj.size[1], x.size(1)).index_add(0, adj.dst[chosen], message))
    return torch.stack(out, dim=1)


def aggregate_scatter(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Gathers the row of every sender and adds it at the pair (receiver, relation) by ``index_add``."""
    message = x.index_select(0, adj.src)
    if weight is not None:
        message = weight[:, None].to(x.dtype) * message
    total = trusted_index_sum(message, adj.pair_dst, adj.size[1] * adj.num_relations)
    return total.view(adj.size[1], adj.num_relations, x.size(1))


def aggregate_csr(x: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """One sparse product with its own backward pass."""
    out: Tensor = _Aggregate.apply(x, weight, adj)  # type: ignore[no-untyped-call]
    return out


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        ctx.adj = adj
        csr = adj.incoming
        out = csr.sum_pairs(csr.col, adj.values(csr.order, weight, x.dtype), x)
        return out.view(adj.size[1], adj.num_relations, x.size(1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        grad_x = sum_csr(grad, adj.transpose(), weight) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = entry_dot(grad.flatten(0, 1), adj.pair_dst, x, adj.src).to(weight.dtype)
        return grad_x, grad_weight, None


AGGREGATE = Backends(automatic="csr", reference=aggregate_reference, scatter=aggregate_scatter, csr=aggregate_csr)


def relational_aggregate(x: Tensor, adj: PreparedGraph, *, impl: str | None = None) -> Tensor:
    r"""Sums the weighted neighbours of every node, separately per relation: (N, F) -> (N, R, F).

    .. math:: \mathbf{y}_{i, r} = \sum_{e = (j, i),\, r(e) = r} w_e \, \mathbf{x}_j

    Shapes: ``x`` (N_src, F) -> (N_dst, R, F); ``x`` may have one leading batch dimension.

    Example:
        >>> from graphprism.ops import RelationalAdj
        >>> adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
        >>> relational_aggregate(torch.tensor([[1.0], [10.0], [100.0]]), adj)[2].flatten().tolist()
        [1.0, 10.0]
    """
    check_graph(adj)
    return adj.relational_aggregate(x, impl)


def dispatch_aggregate(x: Tensor, adj: RelationalAdj, impl: str | None) -> Tensor:
    """`relational_aggregate` on a `RelationalAdj`."""
    check_tensor("x", x)
    check_floating("x", x)
    if x.dim() == 3:
        return torch.stack([dispatch_aggregate(signal, adj, impl) for signal in x])
    check_shape("x", x, [adj.size[0], "F"])
    check_same_device("x", x, "adj", adj.edge_index)
    out: Tensor = AGGREGATE.choose(impl, x.device)(x, adj, adj.weight)
    return out


def sum_reference(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """The definition of `relational_sum`, one relation at a time; slow on purpose and never optimised."""
    out = h.new_zeros(adj.size[1], h.size(2))
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = h[adj.src[chosen], r]
        if weight is not None:
            message = weight[chosen, None].to(h.dtype) * message
        out = out.index_add(0, adj.dst[chosen], message)
    return out


def sum_scatter(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """Gathers the row of every pair (sender, relation) and adds it at the receiver by ``index_add``."""
    message = h.flatten(0, 1).index_select(0, adj.pair_src)
    if weight is not None:
        message = weight[:, None].to(h.dtype) * message
    return trusted_index_sum(message, adj.dst, adj.size[1])


def sum_csr(h: Tensor, adj: RelationalAdj, weight: Tensor | None) -> Tensor:
    """One sparse product with its own backward pass."""
    out: Tensor = _Sum.apply(h, weight, adj)  # type: ignore[no-untyped-call]
    return out


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor | None, adj: RelationalAdj) -> Tensor:
        ctx.save_for_backward(h if ctx.needs_input_grad[1] else None, weight)
        ctx.adj = adj
        csr = adj.incoming
        return csr.sum_nodes(csr.pair_col, adj.values(csr.order, weight, h.dtype), h.flatten(0, 1))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        h, weight = ctx.saved_tensors
        adj: RelationalAdj = ctx.adj
        grad_h = aggregate_csr(grad, adj.transpose(), weight) if ctx.needs_input_grad[0] else None
        grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_weight = entry_dot(grad, adj.dst, h.flatten(0, 1), adj.pair_src).to(weight.dtype)
        return grad_h, grad_weight, None


SUM = Backends(automatic="csr", reference=sum_reference, scatter=sum_scatter, csr=sum_csr)


def relational_sum(h: Tensor, adj: PreparedGraph, weight: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    r"""Sums, over all incoming edges, the sender's row for the edge's relation: (N, R, F) -> (N, F).

    .. math:: \mathbf{y}_i = \sum_{e = (j, i)} w_e \, \mathbf{h}_{j, r(e)}

    ``weight`` (K,) replaces the entry weights of ``adj`` and is differentiable, for instance attention coefficients.
    With (K, H) weights and ``h`` (N_src, R, H, F) the heads are summed separately: (N_dst, H, F).

    Shapes: ``h`` (N_src, R, F) -> (N_dst, F)
    """
    check_graph(adj)
    return adj.relational_sum(h, weight, impl)


def dispatch_sum(h: Tensor, adj: RelationalAdj, weight: Tensor | None, impl: str | None) -> Tensor:
    """`relational_sum` on a `RelationalAdj`."""
    check_tensor("h", h)
    check_floating("h", h)
    if weight is not None:
        check_tensor("weight", weight)
        check_floating("weight", weight)
    if h.dim() == 4:
        if weight is not None:
            check_shape("weight", weight, [adj.src.numel(), h.size(2)])
        heads = range(h.size(2))
        parts = [dispatch_sum(h[:, :, k], adj, None if weight is None else weight[:, k], impl) for k in heads]
        return torch.stack(parts, dim=1)
    check_shape("h", h, [adj.size[0], adj.num_relations, "F"])
    check_same_device("h", h, "adj", adj.edge_index)
    if weight is not None:
        check_shape("weight", weight, [adj.src.numel()])
    out: Tensor = SUM.choose(impl, h.device)(h, adj, adj.weight if weight is None else weight)
    return out
