"""Rows of nodes summed up per graph, where rows stand in any order and some belong to no graph."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops import type_sums


class OwnerReadout(torch.nn.Module):
    """Sum or mean over the nodes of each graph, for many runs at once under `torch.vmap`.

    It takes the place of PyG's readout in the networks of lockstep runs; it holds no weights. Sums come in float32 at
    least, whatever the layers compute in.

    Args:
        mean: Whether to divide by the number of nodes; a graph without nodes gives zeros.

    Attributes:
        num_graphs: B, the graphs of a batch; set before every call.

    Shapes: ``h`` (N, F), ``owner`` (N,) the graph of each row, -1 for none -> (B, F)

    >>> readout = OwnerReadout(mean=True)
    >>> readout.num_graphs = 2
    >>> readout(torch.tensor([[1.0], [5.0], [3.0], [9.0]]), torch.tensor([0, 1, 0, -1])).tolist()
    [[2.0], [5.0]]
    """

    num_graphs: int

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, h: Tensor, owner: Tensor) -> Tensor:
        """One row for each graph."""
        total = type_sums(h, owner, self.num_graphs)
        if not self.mean:
            return total
        nodes = type_sums(h.new_ones(h.size(0), 1), owner, self.num_graphs)
        return total / nodes.clamp(min=1)
