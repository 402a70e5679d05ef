"""The definitions of the sums over tables: gather all slots, weigh, add up; slow on purpose and never optimised."""

from __future__ import annotations

import torch
from torch import Tensor


def table_sum(rows: Tensor, place: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, out: Tensor) -> None:
    """Reads and weighs the row of every slot and adds up the slots of a node."""
    total = _entries(rows, place, weight).sum(dim=2)
    total = total if bias is None else total + bias[:, None]
    out.copy_(total.relu() if relu else total)


def table_split_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_relations: int,
    gate: Tensor | None,
    active: Tensor | None,
    parts: Tensor | None,
    out: Tensor,
) -> None:
    """The same, one sum for each relation; where none is active it is zero."""
    rows = rows if gate is None else torch.where(gate > 0, rows, 0)
    entry = _entries(rows, place, weight)
    chosen = (relation == r if num_relations > 1 else weight != 0 for r in range(num_relations))
    sums = [torch.where(each[..., None], entry, 0).sum(dim=2) for each in chosen]
    out.copy_(torch.stack(sums, dim=2).flatten(2))
    if parts is not None:
        parts.copy_(rows.sum(dim=1, keepdim=True))


def empty_parts(rows: Tensor, num_layers: int) -> Tensor:
    """One part for all rows."""
    return rows.new_empty(num_layers, rows.size(0), 1, rows.size(2))


def gated_column_sum(rows: Tensor, gate: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Adds up the rows of each batch where the gate is open."""
    return (rows if gate is None else torch.where(gate > 0, rows, 0)).sum(dim=1).to(dtype)


def _entries(rows: Tensor, place: Tensor, weight: Tensor) -> Tensor:
    """(K, M, F) read at (K, N, D) and weighed: (K, N, D, F); a slot of weight zero is zero, whatever it points to."""
    first = torch.arange(rows.size(0), device=rows.device)[:, None, None] * rows.size(1)
    weight = weight[..., None].to(rows.dtype)
    return torch.where(weight != 0, rows.flatten(0, 1)[place.long() + first] * weight, 0)
