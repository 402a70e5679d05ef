"""The larger of two states, channel by channel: a step of jumping knowledge by ``max``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def larger(first: Tensor, second: Tensor) -> Tensor:
    r"""Computes :math:`\max(a_{ic}, b_{ic})`; where both are equal the gradient goes to ``first``.

    For the backward pass it keeps one byte for every number, where a stack of all states keeps each a second time. If
    it is taken layer by layer, their gradients come one by one, too: a third of the memory of six layers.

    Shapes: (N, F), (N, F) -> (N, F)

    >>> larger(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 4.0]))
    tensor([2., 5.])
    """
    out: Tensor = _Larger.apply(first, second)  # type: ignore[no-untyped-call]
    return out


class _Larger(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        ctx.save_for_backward(second > first)
        return torch.maximum(first, second)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (is_second,) = ctx.saved_tensors
        to_second = grad * is_second
        return grad - to_second, to_second
