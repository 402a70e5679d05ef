"""Encoder of pairs (entry of an eigenvector, its eigenvalue)."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.dropout import keep_mask


class DeepSetPE(torch.nn.Module):
    r"""Encodes the pairs of `graphprism.transforms.LaplacianSpectrum` as a set, invariant to their order.

    .. math:: \mathbf{p}_i = \sum_m \mathrm{ReLU}(\mathbf{W}_2 \mathrm{ReLU}(\mathbf{W}_1 (s_m v_{mi}, \lambda_m)^\top
        + \mathbf{b}_1) + \mathbf{b}_2)

    where :math:`v_{mi}` is the entry of node :math:`i` of eigenvector :math:`m`, :math:`\lambda_m` its eigenvalue and
    :math:`s_m` a sign, because that of an eigenvector is arbitrary: in training it is drawn in every call, one for each
    :math:`m` and the same for all nodes of the batch; in evaluation it is 1. Pairs with a negative eigenvalue are
    padding.

    Args:
        channels: size of an encoded row; the inner layer has twice as many channels.

    Shapes: ``pairs`` (N, K, 2) -> (N, F)

    >>> DeepSetPE(8)(torch.rand(5, 3, 2)).shape
    torch.Size([5, 8])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.lin1, self.lin2 = torch.nn.Linear(2, 2 * channels), torch.nn.Linear(2 * channels, channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin1.reset_parameters()
        self.lin2.reset_parameters()

    def forward(self, pairs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One row for each node; signs are drawn from ``generator`` if given."""
        there = pairs[..., 1:] >= 0  # (N, K, 1)
        if self.training:
            plus = keep_mask(pairs.new_empty(pairs.size(1)), 0.5, generator)
            sign = 2 * plus.to(pairs.dtype) - 1
            pairs = torch.stack([pairs[..., 0] * sign, pairs[..., 1]], dim=-1)
        h = self.lin2(self.lin1(pairs.to(self.lin1.weight.dtype)).relu()).relu()  # (N, K, F)
        encoded: Tensor = (h * there).sum(dim=1)
        return encoded
