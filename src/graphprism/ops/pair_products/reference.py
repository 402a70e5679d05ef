"""The definition of the products with pairs: everything is multiplied, tiles are looked at afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphprism.ops.pair_products.tile import TILE


def pair_product(x: Tensor, matrix: Tensor, active: Tensor | None) -> Tensor:
    """One product with all matrices."""
    return torch.bmm(x, matrix)


def pair_product_back(back: Tensor, matrix: Tensor, active: Tensor | None, gate: Tensor | None, out: Tensor) -> None:
    """One product with all matrices, of what is active."""
    if active is not None:
        relations = torch.arange(back.size(2) // matrix.size(1), device=back.device)
        there = (active[..., None] >> relations & 1).bool()  # (K, T, R)
        rows = there.repeat_interleave(TILE, dim=1)[:, : back.size(1), :, None]
        back = torch.where(rows, back.unflatten(2, (relations.numel(), -1)), 0).flatten(2)
    torch.bmm(back, matrix.transpose(1, 2), out=out)
    if gate is not None:
        out.masked_fill_(~(gate > 0), 0)


def turn_matrices(matrices: Sequence[Tensor]) -> list[Tensor]:
    """As they are."""
    return list(matrices)
