"""The rank of the matrix of weighted in-degrees: the floor of the next layer's rank."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_no_nan, check_shape
from graphprism.analysis.certificate.independent_pairs import checked_batch

RANK_TOLERANCE = 1e-9


def structural_rank(
    in_degrees: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    tolerance: float = RANK_TOLERANCE,
) -> Tensor:
    r"""Rank of the weighted in-degrees :math:`\mathbf{E} \in \mathbb{R}^{n \times R}` of each graph.

    Every row is scaled to length 1, which leaves the rank as it is. Then the longest row of each graph is taken as
    the next basis vector and projected out of all rows of that graph, until nothing longer than ``tolerance`` is
    left: a QR factorisation with pivoting, for all graphs at once. A row that leaves its span by less than
    ``tolerance`` is taken to lie in it, so that the result may be too small but is not too large.

    Shapes: ``in_degrees`` (N, R), ``batch`` (N,) -> (G,) long. Time: O(N R^2).

    >>> structural_rank(torch.tensor([[4.0, 2.0], [2.0, 1.0], [3.0, 2.0], [2.0, 1.0]])).item()
    2
    """
    check_shape("in_degrees", in_degrees, ["N", "R"])
    check_no_nan("in_degrees", in_degrees)
    batch, num_graphs = checked_batch(batch, in_degrees.size(0), num_graphs)
    rows = _unit_rows(in_degrees.detach().cpu().double())
    rank = torch.zeros(num_graphs, dtype=torch.long)
    for _ in range(in_degrees.size(1)):
        length = rows.norm(dim=1)
        pivot = _longest_row(length, batch, num_graphs, tolerance)
        found = pivot >= 0
        rank += found
        basis = torch.zeros(num_graphs, rows.size(1), dtype=torch.float64)
        basis[found] = rows[pivot[found]] / length[pivot[found], None]
        basis = basis[batch]
        rows = rows - (rows * basis).sum(dim=1, keepdim=True) * basis
    return rank


def _unit_rows(rows: Tensor) -> Tensor:
    largest = rows.abs().amax(dim=1, keepdim=True) if rows.size(1) else rows.sum(dim=1, keepdim=True)
    rows = rows / torch.where(largest > 0, largest, 1.0)  # first by the largest entry: no square can overflow
    length = rows.norm(dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def _longest_row(length: Tensor, batch: Tensor, num_graphs: int, tolerance: float) -> Tensor:
    """First of the longest rows of each graph, -1 where no row is longer than ``tolerance``."""
    longest = torch.zeros(num_graphs, dtype=torch.float64).scatter_reduce_(0, batch, length, "amax")
    candidate = ((length == longest[batch]) & (length > tolerance)).nonzero().squeeze(1)
    pivot = torch.full((num_graphs,), -1, dtype=torch.long)
    return pivot.scatter_reduce_(0, batch[candidate], candidate, "amin", include_self=False)
