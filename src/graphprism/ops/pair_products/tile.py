"""What a number of ``active`` speaks of."""

from __future__ import annotations

import torch
from torch import Tensor

# Rows of a tile.
TILE = 64
# Relations at most: the kernels are written out for each of them.
MOST_RELATIONS = 8


def of_active(back: Tensor, num_relations: int, active: Tensor | None) -> Tensor:
    """Rows of pairs, (K, N, R * F), with zeros for those in tiles that are not active."""
    if active is None:
        return back
    there = (active[..., None] >> torch.arange(num_relations, device=back.device) & 1).bool()  # (K, T, R)
    rows = there.repeat_interleave(TILE, dim=1)[:, : back.size(1), :, None]
    return torch.where(rows, back.unflatten(2, (num_relations, -1)), 0).flatten(2)
