"""The definition of `take_row`: one tensor after another."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def take_row(tensors: Sequence[Tensor], number: Tensor) -> list[Tensor]:
    """Selects a slice of one row and drops its first dimension."""
    return [tensor.index_select(0, number)[0] for tensor in tensors]
