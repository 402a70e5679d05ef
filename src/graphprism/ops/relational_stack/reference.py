"""The definition of `relational_stack`: one layer after another; slow on purpose and never optimised."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphprism.ops.table_adj import TableAdj
from graphprism.ops.table_products import linear


def relational_stack(
    x: Tensor, adj: TableAdj, weights: Sequence[Tensor], biases: Sequence[Tensor], residual: bool
) -> tuple[Tensor, ...]:
    """Applies the layers and keeps every state."""
    states = []
    for weight, bias in zip(weights, biases, strict=True):
        new = (linear(x, adj, weight) + bias).relu()
        x = x + new if residual else new
        states.append(x)
    return tuple(states)
