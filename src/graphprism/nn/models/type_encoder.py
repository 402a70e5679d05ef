"""Embedding of node or edge types in one or several columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from graphprism._checks import check_range, check_tensor
from graphprism.ops.backends import is_transformed
from graphprism.ops.batched.type_rows import type_rows


class TypeEncoder(torch.nn.Embedding):
    """Sum of one embedding per column of types; one table holds the rows of all columns.

    Args:
        name: name of the input in errors.
        num_types: number of types of each column.
        channels: size of a row.
        start: ``"normal"`` or ``"glorot"``; see `GNN`.

    Shapes: ``types`` (N,) for one column, or (N, C) -> (N, F)

    >>> TypeEncoder("x", [28], 16)(torch.tensor([3, 27])).shape
    torch.Size([2, 16])
    >>> TypeEncoder("x", [119, 5], 16)(torch.tensor([[6, 0], [7, 4], [7, 1]])).shape
    torch.Size([3, 16])
    """

    first: Tensor
    start = "normal"

    def __init__(self, name: str, num_types: Sequence[int], channels: int, start: str = "normal") -> None:
        if start not in ("normal", "glorot"):
            raise ValueError(f'`type_start` must be "normal" or "glorot", got {start!r}')
        super().__init__(sum(num_types), channels)
        self.name, self.num_types = name, tuple(num_types)
        first = [0, *accumulate(num_types)][:-1]
        self.register_buffer("first", torch.tensor(first), persistent=False)
        if start != "normal":  # already drawn by the base class
            self.start = start
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new rows."""
        if self.start == "normal":
            super().reset_parameters()
        else:
            for table in self.weight.detach().split(self.num_types):
                torch.nn.init.xavier_uniform_(table)

    def forward(self, types: Tensor | None) -> Tensor:
        """One row for each row of types."""
        columns = len(self.num_types)
        if types is not None:
            check_tensor(self.name, types)
        wrong = types is None or types.is_floating_point() or types.dtype == torch.bool or types.is_complex()
        if wrong or types is None or types.dim() not in (1, 2) or types[:1].numel() not in (0, columns):
            came = None if types is None else f"{types.dtype} of shape {list(types.shape)}"
            count = "one integer type" if columns == 1 else f"{columns} integer types"
            raise ValueError(f"`{self.name}` must hold {count} in each row, got {came}")
        # on other devices the gather itself checks the range
        if types.device.type == "cpu" and not is_transformed():
            for column, number in zip(types.view(types.size(0), columns).t(), self.num_types, strict=False):
                check_range(self.name, column, number)
        if columns == 1:
            return type_rows(types.flatten(), self.weight)
        return type_rows(types + self.first, self.weight).sum(dim=-2)
