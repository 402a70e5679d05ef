"""The definition of the gradient: one product of everything, with zeros for what is not active."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.pair_products.tile import of_active


def pair_gradient(
    x: Tensor, back: Tensor, matrix: Tensor, num_relations: int, active: Tensor | None, first: Tensor | None
) -> Tensor:
    """One product for all matrices."""
    x = x if first is None else torch.cat([first, x[first.size(0) :]])
    back = of_active(back, num_relations, None if active is None else active.repeat(x.size(0) // active.size(0), 1))
    in_channels, sizes = x.size(2), (num_relations, back.size(2) // num_relations)
    if matrix.stride(2) == 1:
        return torch.bmm(x.transpose(1, 2), back).view(x.size(0), in_channels, *sizes).transpose(1, 2)
    return torch.bmm(back.transpose(1, 2), x).view(x.size(0), *sizes, in_channels).transpose(2, 3)
