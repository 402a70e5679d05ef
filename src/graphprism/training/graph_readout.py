"""Rows of nodes summed up per graph, where the bounds of the graphs are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops import csr_sum


class GraphReadout(torch.nn.Module):
    """Sum or mean over the nodes of each graph, without waiting for the device and with the same bits every time.

    PyG's readouts take the number of graphs from the largest entry of ``batch``, which a GPU has to be waited for, and
    add in any order. This one takes their place while a network is trained; it holds no weights.

    Args:
        mean: Whether to divide by the number of nodes.

    Attributes:
        ptr: (B + 1,) where the nodes of each graph begin; set before every call.

    Shapes: ``h`` (N, F), ``owner`` (N,) the graph of each node -> (B, F)

    >>> readout = GraphReadout(mean=True)
    >>> readout.ptr = torch.tensor([0, 2, 3])
    >>> readout(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1])).tolist()
    [[2.0], [5.0]]
    """

    ptr: Tensor

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, h: Tensor, owner: Tensor) -> Tensor:
        """One row for each graph."""
        total: Tensor = _RunSum.apply(h, self.ptr, owner)  # type: ignore[no-untyped-call]
        return total / self.ptr.diff().clamp(min=1).to(total.dtype)[:, None] if self.mean else total


class _RunSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, ptr: Tensor, owner: Tensor) -> Tensor:
        ctx.save_for_backward(owner)
        return csr_sum(ptr, torch.arange(h.size(0), device=h.device), None, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (owner,) = ctx.saved_tensors
        return grad.index_select(0, owner), None, None
