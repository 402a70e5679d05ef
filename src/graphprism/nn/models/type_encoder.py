"""Rows for nodes or edges that carry types instead of features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from graphprism.ops import type_rows


class TypeEncoder(torch.nn.Embedding):
    """Adds up one learned row for each column of types; one table holds the rows of all columns.

    Args:
        name: What errors call the input.
        num_types: how many types each column tells apart.
        channels: size of a row.

    Shapes: ``types`` (N,) for one column, or (N, C) -> (N, F)

    >>> TypeEncoder("x", [28], 16)(torch.tensor([3, 27])).shape
    torch.Size([2, 16])
    >>> TypeEncoder("x", [119, 5], 16)(torch.tensor([[6, 0], [7, 4], [7, 1]])).shape
    torch.Size([3, 16])
    """

    first: Tensor

    def __init__(self, name: str, num_types: Sequence[int], channels: int) -> None:
        super().__init__(sum(num_types), channels)
        self.name, self.num_types = name, tuple(num_types)
        first = [0, *accumulate(num_types)][:-1]
        self.register_buffer("first", torch.tensor(first), persistent=False)

    def forward(self, types: Tensor | None) -> Tensor:
        """One row for each row of types."""
        columns = len(self.num_types)
        if types is None or types.is_floating_point() or types.dim() > 2 or types[:1].numel() not in (0, columns):
            came = None if types is None else f"{types.dtype} of shape {list(types.shape)}"
            count = "one integer type" if columns == 1 else f"{columns} integer types"
            raise ValueError(f"`{self.name}` must hold {count} in each row, got {came}")
        if columns == 1:
            return type_rows(types.flatten(), self.weight)
        return type_rows(types + self.first, self.weight).sum(dim=-2)
