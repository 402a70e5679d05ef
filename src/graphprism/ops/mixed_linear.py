r"""Messages of a layer with its bias; matrices may be mixtures: what relations have in common plus deviations."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphprism.ops.backends import is_transformed
from graphprism.ops.linear import relational_linear
from graphprism.ops.linear_csr import csr, linear_backward, linear_forward
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
    """

    common: Tensor
    deviation: Tensor
    columns: Tensor
    adjoint: Tensor


def biased_linear(x: Tensor, adj: PreparedGraph, weight: Tensor, bias: Tensor | None) -> Tensor:
    """`relational_linear` plus a bias, on a `RelationalAdj` in one node of autograd."""
    if bias is not None and _in_one_node(x, adj, weight.shape[:2], weight, bias):
        return csr(x, adj, weight, bias)  # type: ignore[arg-type]
    out = relational_linear(x, adj, weight)
    return out if bias is None else out + bias


def mixed_linear(x: Tensor, adj: PreparedGraph, mixture: Mixture, bias: Tensor | None = None) -> Tensor:
    """`relational_linear` with the matrices of a mixture, plus a bias.

    On a `RelationalAdj` matrices and products are one node of autograd, and the gradients of both parameters one
    product.
    """
    common, deviation, columns, _ = mixture
    if _in_one_node(x, adj, (columns.size(0), common.size(0)), common, bias):
        out: Tensor = _MixedLinear.apply(x, common, deviation, adj.weight, bias, adj, mixture)  # type: ignore[attr-defined,no-untyped-call]
        return out
    return biased_linear(x, adj, mix(common, deviation, columns), bias)


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
    ) -> Tensor:
        weight = mix_rows(mixture.columns, deviation, common)
        out, sums = linear_forward(x, weight, entry_weight, bias, adj)
        ctx.save_for_backward(x, weight, entry_weight, common, deviation, sums)
        ctx.adj, ctx.columns, ctx.adjoint = adj, mixture.columns, mixture.adjoint
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, entry_weight, common, deviation, sums = ctx.saved_tensors
        need_x, need_common, need_deviation, need_entry_weight, need_bias, _, _ = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a gradient of this gradient goes through the matrices as well
            weight = mix(common, deviation, ctx.columns)
        needed = (need_x, need_common or need_deviation, need_entry_weight, need_bias)
        grad_x, both, *rest = linear_backward(grad, x, weight, entry_weight, sums, ctx.adj, needed, ctx.adjoint)
        if both is None:
            return grad_x, None, None, *rest, None, None
        return grad_x, both[0], both[1:], *rest, None, None
