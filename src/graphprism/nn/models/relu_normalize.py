"""ReLU and a division of every row by its length, as one step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_EPS = 1e-12  # the shortest length that is divided by, as in PyTorch


def relu_normalize(x: Tensor) -> Tensor:
    r"""Computes :math:`\mathbf{r}_i / \lVert \mathbf{r}_i \rVert_2` where :math:`\mathbf{r} = \max(\mathbf{x}, 0)`.

    For the backward pass it keeps the output, which the next layer keeps as well, and one number for every row; PyTorch
    keeps what ReLU gives besides. A row of zeros stays one.

    Shapes: (N, F) -> (N, F)

    >>> relu_normalize(torch.tensor([[3.0, 4.0, -2.0], [-1.0, -1.0, 0.0]]))
    tensor([[0.6000, 0.8000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    out: Tensor = _ReluNormalize.apply(x)  # type: ignore[no-untyped-call]
    return out


class _ReluNormalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = x.relu()
        length = out.norm(dim=-1, keepdim=True)
        out /= length.clamp(min=_EPS)
        ctx.save_for_backward(out, length)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        out, length = ctx.saved_tensors
        # a length that is not divided by has no gradient
        along = (grad * out).sum(dim=-1, keepdim=True) * (length >= _EPS)
        found: Tensor = torch.addcmul(grad, out, along, value=-1)
        return found.div_(length.clamp(min=_EPS)).mul_(out > 0)
