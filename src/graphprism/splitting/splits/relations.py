"""Checks on relation numbers and scores that come from outside."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range

# Without a known number of relations: what a 64-bit integer can hold.
_LARGEST = 1 << 63


def checked_relations(name: str, values: Tensor, num_relations: int | None) -> Tensor:
    """Relation numbers (E,), checked to be whole and in [0, ``num_relations``), as a long tensor of their own."""
    values = values.byte() if values.dtype == torch.bool else values
    if values.is_floating_point():
        whole = values.isfinite() & (values == values.round())
        if not bool(whole.all()):
            raise ValueError(f"`{name}` must hold whole numbers, got {values[~whole][0].item()}")
    else:
        check_integer(name, values)
    check_range(name, values, num_relations)
    if num_relations is None and values.is_floating_point():
        check_range(name, values, _LARGEST)
    return values.to(torch.long, copy=True)


def checked_scores(name: str, values: Tensor) -> Tensor:
    """Scores (E, R), checked to be finite."""
    if not bool(values.isfinite().all()):
        raise ValueError(f"`{name}` must hold finite scores, got {values[~values.isfinite()][0].item()}")
    return values
