"""How large the node states are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphprism.analysis.collapse._per_graph import num_graphs, per_graph
from graphprism.analysis.collapse._thin_factor import ThinFactor


class Norms(NamedTuple):
    """Four norms of a matrix, in float64; each of shape () or (G,)."""

    frobenius: Tensor
    nuclear: Tensor
    spectral: Tensor
    largest: Tensor


def norms(x: Tensor, batch: Tensor | None = None) -> Norms:
    r"""Frobenius, nuclear and spectral norm of the node states, and their largest magnitude.

    .. math:: \|\mathbf{X}\|_F = \Bigl(\sum_k \sigma_k^2\Bigr)^{1/2}, \quad \|\mathbf{X}\|_* = \sum_k \sigma_k, \quad
              \|\mathbf{X}\|_2 = \max_k \sigma_k, \quad \max_{ij} |x_{ij}|

    where :math:`\sigma_k` are the singular values of :math:`\mathbf{X}`. All four are 0 for zeros and for no entries,
    infinity if ``x`` holds infinity, and NaN if it holds NaN.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> four tensors, () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> norms(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).nuclear.round(decimals=6)
        tensor(7., dtype=torch.float64)
    """
    values = per_graph(four_norms, x, batch, zero=(0.0,) * 4)
    if bool(values.isnan().any()):
        values = torch.where(values.isnan(), _sum_of_magnitudes(x, batch)[..., None], values)
    return Norms(*values.unbind(dim=-1))


def four_norms(factor: ThinFactor) -> Tensor:
    """The norms of every matrix of the factor, (B, 4)."""
    values = factor.singular_values
    scaled = (torch.linalg.vector_norm(values, dim=1), values.sum(dim=1), values[:, 0], torch.ones_like(values[:, 0]))
    return torch.stack(scaled, dim=1) * factor.scale[:, None]


def _sum_of_magnitudes(x: Tensor, batch: Tensor | None) -> Tensor:
    """Infinity or NaN, whichever the entries say: only read where a graph holds one of them."""
    per_node = x.detach().double().abs().sum(dim=1)
    if batch is None:
        return per_node.sum()
    return per_node.new_zeros(num_graphs(batch)).index_add(0, batch, per_node)
