"""A whole stack of relational layers with ReLU on a `PaddedAdj`: where a deep network spends its time.

A layer is a matrix product and one sum over slots that adds the bias and applies ReLU; its backward pass is one sum,
which masks by the output of the ReLU and accumulates the gradient of the bias, and a matrix product. The states of all
layers are one tensor, and so are the sums of the backward pass, so that a single batched product computes the gradients
of the matrices of all layers. If the graph knows which pairs (node, relation) are active, matrix products skip the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.backends import Backends
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import Columns, side_by_side
from graphprism.ops.batched.pair_products import (
    pair_gradient,
    pair_product,
    pair_product_back,
    reads_active,
    turn_matrices,
)
from graphprism.ops.batched.slot_sum import empty_parts, gated_column_sum, slot_split_sum, slot_sum
from graphprism.ops.batched.vmap import for_all_runs, only_vmap


def reference(
    x: Tensor, adj: PaddedAdj, weights: Sequence[Tensor], biases: Sequence[Tensor], residual: bool
) -> tuple[Tensor, ...]:
    """The definition, one layer after another; slow on purpose and never optimised."""
    states = []
    for weight, bias in zip(weights, biases, strict=True):
        new = (adj.relational_linear(x, weight) + bias).relu()
        x = x + new if residual else new
        states.append(x)
    return tuple(states)


def layered(
    x: Tensor, adj: PaddedAdj, weights: Sequence[Tensor], biases: Sequence[Tensor], residual: bool
) -> tuple[Tensor, ...]:
    """Two kernels per layer and pass, and the gradients of all matrices in one product."""
    arguments = (x, adj.numbers, adj.weights, adj.active, residual, *weights, *biases)
    if only_vmap():
        many: tuple[Tensor, ...] = for_all_runs(_Stack, *arguments)
        return many
    alone = [each[None] if isinstance(each, Tensor) else each for each in arguments]
    states: tuple[Tensor, ...] = _Stack.apply(*alone)  # type: ignore[no-untyped-call]
    return tuple(state[0] for state in states)


class _Stack(torch.autograd.Function):
    """K runs side by side: ``x`` (K, N, F), matrices (K, R, F, F), biases (K, F)."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        numbers: Tensor,
        table: Tensor,
        active: Tensor | None,
        residual: bool,
        *parameters: Tensor,
    ) -> tuple[Tensor, ...]:
        num_layers = len(parameters) // 2
        # (K, F, R F'): copied once for both passes, or not at all if they are stored in this layout
        matrices, biases = [side_by_side(weight) for weight in parameters[:num_layers]], parameters[num_layers:]
        columns = Columns(numbers, table)
        states = x.new_empty(num_layers + 1, *x.shape)
        # one product for all layers needs their inputs in one tensor; only a kernel can read the first from elsewhere
        first = x if reads_active(x, matrices[0], active) else states[0].copy_(x)
        # with residuals the output of the ReLU is not the state: it is kept to gate the gradient
        gates = x.new_empty(num_layers, *x.shape) if residual else states[1:]
        for layer, (matrix, bias) in enumerate(zip(matrices, biases, strict=True)):
            source = states[layer] if layer else first
            h = pair_product(source, matrix, active).view(x.size(0), -1, bias.size(1))
            slot_sum(h, columns.sender_pair, columns.weight, bias, relu=True, out=gates[layer])
            if residual:
                torch.add(source, gates[layer], out=states[layer + 1])
        ctx.save_for_backward(numbers, table, active, first, states, gates, *matrices)
        ctx.residual = residual
        ctx.set_materialize_grads(False)
        return states[1:].unbind()

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        numbers, table, active, first, states, gates, *matrices = ctx.saved_tensors
        num_layers, num_runs, num_rows, channels = gates.shape
        num_relations = matrices[0].size(2) // channels
        columns = Columns(numbers, table)
        sent = columns.receiver, columns.sent_weight, columns.sent_relation
        back = gates.new_empty(num_layers, num_runs, num_rows, num_relations * channels)
        # gradient of the current state
        total = torch.zeros_like(gates[-1]) if given[-1] is None else given[-1]
        parts = empty_parts(total, num_layers)  # of the gradients of the biases
        turned = turn_matrices(matrices, active)
        wanted = active if reads_active(first, matrices[0], active) else None
        # if nothing else is added to gradients, they are gated when they are written instead of when they are read
        gates_early = active is not None and not ctx.residual and all(each is None for each in given[:-1])
        for layer in reversed(range(num_layers)):
            passed = gates_early and layer < num_layers - 1
            gate = None if passed else gates[layer]
            slot_split_sum(total, *sent, num_relations, gate, wanted, parts[layer], out=back[layer])
            target = torch.empty_like(gates[0])
            gate = gates[layer - 1] if gates_early and layer else None
            pair_product_back(back[layer], turned[layer], active, gate, out=target)
            if ctx.residual:
                target += total
            if layer and (more := given[layer - 1]) is not None:
                target += more
            total = target
        inputs, back = states[:-1].flatten(0, 1), back.flatten(0, 1)
        first = None if wanted is None else first
        grad_weight = pair_gradient(inputs, back, matrices[0], num_relations, wanted, first)
        grad_bias = gated_column_sum(parts.flatten(0, 1), dtype=gates.dtype)
        return total, None, None, None, None, *grad_weight.chunk(num_layers), *grad_bias.chunk(num_layers)


BACKENDS = Backends(automatic="layered", reference=reference, layered=layered)


def relational_stack(
    x: Tensor,
    adj: PaddedAdj,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    residual: bool = False,
    *,
    impl: str | None = None,
) -> tuple[Tensor, ...]:
    r"""Applies L layers of one width and returns the state after each.

    .. math:: \mathbf{x}^{(l)} =
        \max\Big(0, \sum_r \mathbf{M}_r \mathbf{x}^{(l-1)} \mathbf{W}^{(l)}_r + \mathbf{b}^{(l)}\Big)

    where :math:`\mathbf{M}_r` is the weighted adjacency matrix of relation :math:`r`; with ``residual`` plus
    :math:`\mathbf{x}^{(l-1)}`. No second derivatives.

    Shapes: ``x`` (N, F), L times ``weights`` (R, F, F) and ``biases`` (F,) -> L times (N, F)
    """
    if not weights or len(weights) != len(biases):
        raise ValueError(f"`weights` must be as many as `biases`, one at least, got {len(weights)} and {len(biases)}")
    for weight in weights:
        check_shape("weights", weight, [adj.num_relations, x.size(-1), x.size(-1)])
    check_shape("x", x, [adj.size[0], "F"])
    stack, device = BACKENDS.choose(impl, x.device), x.device.type
    if not torch.is_autocast_enabled(device):
        states: tuple[Tensor, ...] = stack(x, adj, weights, biases, residual)
        return states
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        low = [[each.to(dtype) for each in part] for part in (weights, biases)]
        mixed: tuple[Tensor, ...] = stack(x.to(dtype), adj, low[0], low[1], residual)
    return mixed
