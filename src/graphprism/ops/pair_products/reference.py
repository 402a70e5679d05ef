"""The definition of the products with pairs: everything is multiplied, tiles are looked at afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphprism.ops.pair_products.tile import of_active


def pair_product(x: Tensor, matrix: Tensor, active: Tensor | None) -> Tensor:
    """One product with all matrices."""
    return torch.bmm(x, matrix)


def pair_product_back(back: Tensor, matrix: Tensor, active: Tensor | None, gate: Tensor | None, out: Tensor) -> None:
    """One product with all matrices, of what is active."""
    torch.bmm(of_active(back, back.size(2) // matrix.size(1), active), matrix.transpose(1, 2), out=out)
    if gate is not None:
        out.masked_fill_(~(gate > 0), 0)


def turn_matrices(matrices: Sequence[Tensor]) -> list[Tensor]:
    """As they are."""
    return list(matrices)
