"""A whole stack of plain GIN layers on a `PaddedAdj`, for many runs under `torch.vmap`.

The inputs of all maps are one tensor, and so are the gradients of their outputs: one batched product computes the
gradients of all matrices, where one product per map would leave most of a GPU idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.batched.batched_linear import FINISH, GATE
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import Columns, sum_with_root
from graphprism.ops.batched.row_maps import product_of_rows
from graphprism.ops.batched.slot_sum import slot_sum
from graphprism.ops.batched.vmap import for_all_runs


def reference(
    x: Tensor, adj: PaddedAdj, eps: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """The definition, one map after another; slow on purpose and never optimised."""
    states, maps = [], len(weights) // len(eps)
    for layer, own in enumerate(eps):
        x = sum_with_root(x, adj, own)
        for number in range(layer * maps, (layer + 1) * maps):
            x = torch.nn.functional.linear(x, weights[number], biases[number]).relu()
        states.append(x)
    return tuple(states)


def network_stack(
    x: Tensor, adj: PaddedAdj, eps: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    r"""Applies L layers of one width under `torch.vmap` and returns the state after each.

    .. math:: \mathbf{x}^{(l)}_i = h^{(l)} \Big( (1 + \epsilon^{(l)}) \, \mathbf{x}^{(l-1)}_i
        + \sum_{e = (j, i)} w_e \mathbf{x}^{(l-1)}_j \Big)

    where every :math:`h^{(l)}` has the same number of linear maps, each with bias and ReLU, the last one too. The
    :math:`\epsilon` are constants. One relation; no second derivatives.

    Shapes: ``x`` (N, F), L times ``eps`` (), for each map ``weights`` (F, F) and ``biases`` (F,) -> L times (N, F)
    """
    if adj.num_relations != 1:
        raise ValueError(f"`adj` must have one relation, got {adj.num_relations}")
    states: tuple[Tensor, ...] = for_all_runs(
        _Stack, x, adj.numbers, adj.weights, len(eps), len(weights), *eps, *weights, *biases
    )
    return states


class _Stack(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, numbers: Tensor, table: Tensor, num_layers: int, num_maps: int, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        eps, weights = parameters[:num_layers], parameters[num_layers : num_layers + num_maps]
        biases, maps = parameters[num_layers + num_maps :], num_maps // num_layers
        columns, finish = Columns(numbers, table), FINISH.choose(None, x.device)
        inputs, states = x.new_empty(num_maps, *x.shape), x.new_empty(num_layers, *x.shape)
        for layer in range(num_layers):
            first = layer * maps
            slot_sum(x, columns.sender_pair, columns.weight, root=(x, eps[layer]), out=inputs[first])
            for number in range(first, first + maps):
                target = inputs[number + 1] if number + 1 < first + maps else states[layer]
                torch.bmm(inputs[number], weights[number].transpose(1, 2), out=target)
                finish(target, biases[number])
            x = states[layer]
        ctx.save_for_backward(numbers, table, inputs, states, *eps, *weights)
        ctx.set_materialize_grads(False)
        return states.unbind()

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Tensor | None, ...]:
        numbers, table, inputs, states, *parameters = ctx.saved_tensors
        num_layers, num_maps = states.size(0), inputs.size(0)
        eps, weights, maps = parameters[:num_layers], parameters[num_layers:], num_maps // num_layers
        columns, gate = Columns(numbers, table), GATE.choose(None, inputs.device)
        grads, of_biases = torch.empty_like(inputs), [inputs] * num_maps
        total = torch.zeros_like(states[-1]) if given[-1] is None else given[-1]
        for layer in reversed(range(num_layers)):
            last = (layer + 1) * maps - 1
            for number in reversed(range(layer * maps, last + 1)):
                out = states[layer] if number == last else inputs[number + 1]
                _, of_biases[number] = gate(total, out, grads[number])
                total = torch.bmm(grads[number], weights[number])
            total = slot_sum(total, columns.receiver, columns.sent_weight, root=(total, eps[layer]))
            if layer and (more := given[layer - 1]) is not None:
                total = total + more
        of_weights = product_of_rows(grads.flatten(0, 1), inputs.flatten(0, 1)).chunk(num_maps)
        return total, None, None, None, None, *[None] * num_layers, *of_weights, *of_biases
