r"""Messages of a layer with its bias; matrices may be mixtures: what relations have in common plus deviations."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphprism.ops.backends import is_captured, is_transformed
from graphprism.ops.linear import relational_linear
from graphprism.ops.linear_csr import counts_launches, csr, linear_backward, linear_forward
from graphprism.ops.mix_rows import mix, mix_rows
from graphprism.ops.pair_rows import active_pairs_pay
from graphprism.ops.prepared_graph import PreparedGraph
from graphprism.ops.relational_adj import RelationalAdj


class Mixture(NamedTuple):
    r"""Matrices :math:`\mathbf{W}_r = \mathbf{C} + \sum_k h_{rk} \mathbf{D}_k`.

    Attributes:
        common: (F_in, F_out) :math:`\mathbf{C}`.
        deviation: (R - 1, F_in, F_out) :math:`\mathbf{D}`.
        columns: (R, R - 1) :math:`h`.
        adjoint: (R, R) a row of ones, then :math:`h^\top`: gives both gradients of that of the matrices.
        decay: what :math:`h` depends on, besides R.
    """

    common: Tensor
    deviation: Tensor
    columns: Tensor
    adjoint: Tensor
    decay: float


def biased_linear(x: Tensor, adj: PreparedGraph, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`relational_linear` plus a bias, on a `RelationalAdj` in one node of autograd."""
    if bias is not None and _in_one_node(x, adj, weight.shape[:2], weight, bias):
        return csr(x, adj, weight, bias)  # type: ignore[arg-type]
    out = relational_linear(x, adj, weight)
    return out if bias is None else out + bias


def mixed_linear(x: Tensor, adj: PreparedGraph, mixture: Mixture, bias: Tensor | None = None) -> Tensor:
    r"""`relational_linear` with the matrices of a mixture, plus a bias.

    On a `RelationalAdj` matrices and products are one node of autograd, and the gradients of both parameters one
    product.

    A batch of small graphs on a GPU, where launches cost more than sums, is mixed instead of the matrices:
    :math:`\sum_r \mathbf{M}_r \mathbf{X} \mathbf{W}_r = (\sum_r \mathbf{M}_r) \mathbf{X} \mathbf{C} +
    \sum_k (\sum_r h_{rk} \mathbf{M}_r) \mathbf{X} \mathbf{D}_k`. That is done once for all layers, each of which then
    only lays C beside D.
    """
    common, deviation, columns = mixture[:3]
    if _in_one_node(x, adj, (columns.size(0), common.size(0)), common, bias):
        mixed = _mixed_graph(adj, mixture)  # type: ignore[arg-type]
        graph: Any = adj if mixed is None else mixed
        is_spread = mixed is not None
        out: Tensor = _MixedLinear.apply(x, common, deviation, graph.weight, bias, graph, mixture, is_spread)  # type: ignore[no-untyped-call]
        return out
    return biased_linear(x, adj, mix(common, deviation, columns), bias)


def _mixed_graph(adj: RelationalAdj, mixture: Mixture) -> RelationalAdj | None:
    """`spread` where that pays, else `None`; asked once for all layers of a size."""
    key = ("mixed", mixture.common.shape, mixture.decay, mixture.adjoint.dtype)
    products = adj.products
    if key not in products:
        products[key] = spread(adj, mixture) if _spreading_pays(adj, mixture.common) else None
    found: RelationalAdj | None = products[key]
    return found


def spread(adj: RelationalAdj, mixture: Mixture) -> RelationalAdj:
    """The graph whose matrices are C and D: every edge is in all relations, times the row (1, h) of its own."""

    def build() -> RelationalAdj:
        number, types = adj.num_relations, adj.edge_type
        scores = mixture.adjoint.index_select(1, types.long())  # type: ignore[union-attr]
        weight = scores if adj.edge_weight is None else scores * adj.edge_weight
        relation = torch.arange(number, device=adj.device).unsqueeze(1).expand(number, adj.num_edges)
        return adj.with_edges(adj.edge_index.repeat(1, number), relation.flatten(), weight.flatten())

    return adj.derived(("spread", mixture.decay, mixture.adjoint.dtype), build)


def _spreading_pays(adj: RelationalAdj, matrix: Tensor) -> bool:
    """Whether launches cost more than sums, also with every edge in all relations.

    Not for a prepared graph, whose fused kernel mixes the gradients itself, nor under capture, where launches are free
    and every layer prepares its own graph.
    """
    return (
        adj.one_pass
        and adj.edge_type is not None
        and not adj.is_soft
        and not (adj.edge_weight is not None and adj.edge_weight.requires_grad)
        and counts_launches(adj.edge_index, max(adj.num_edges, adj.size[1]) * adj.num_relations, *matrix.shape)
        and not is_captured(adj.edge_index)
    )


def _in_one_node(x: Tensor, adj: PreparedGraph, sizes: tuple[int, ...], weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the default backend computes the products on arguments of fitting sizes, types and devices.

    Otherwise `relational_linear` chooses the backend, or says what does not fit.
    """
    return (
        not is_transformed()
        and isinstance(adj, RelationalAdj)
        and sizes[0] == adj.num_relations
        and x.shape == (adj.size[0], sizes[1])
        and x.dtype == weight.dtype
        and x.device == weight.device == adj.edge_index.device
        and (bias is None or (bias.shape == weight.shape[-1:] and bias.dtype == x.dtype and bias.device == x.device))
        and x.layout == torch.strided
        and not active_pairs_pay(adj)
        and not (x.is_meta or torch.is_autocast_enabled(x.device.type))
    )


class _MixedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        common: Tensor,
        deviation: Tensor,
        entry_weight: Tensor | None,
        bias: Tensor | None,
        adj: RelationalAdj,
        mixture: Mixture,
        is_spread: bool,
    ) -> Tensor:
        weight = _stack(common, deviation) if is_spread else mix_rows(mixture.columns, deviation, common)
        out, sums = linear_forward(x, weight, entry_weight, bias, adj)
        ctx.save_for_backward(x, weight, entry_weight, common, deviation, sums)
        ctx.adj, ctx.columns = adj, mixture.columns
        ctx.adjoint = None if is_spread else mixture.adjoint
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, entry_weight, common, deviation, sums = ctx.saved_tensors
        need_x, need_common, need_deviation, need_entry_weight, need_bias, *_ = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a gradient of this gradient goes through the matrices as well
            weight = _stack(common, deviation) if ctx.adjoint is None else mix(common, deviation, ctx.columns)
        needed = (need_x, need_common or need_deviation, need_entry_weight, need_bias)
        grad_x, both, *rest = linear_backward(grad, x, weight, entry_weight, sums, ctx.adj, needed, ctx.adjoint)
        if both is None:
            return grad_x, None, None, *rest, None, None, None
        return grad_x, both[0], both[1:], *rest, None, None, None


def _stack(common: Tensor, deviation: Tensor) -> Tensor:
    return torch.cat([common.unsqueeze(0), deviation])
