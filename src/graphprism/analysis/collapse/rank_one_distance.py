"""How far a matrix of node states is from the closest thing to one signal."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.analysis.collapse._per_graph import per_graph
from graphprism.analysis.collapse._thin_factor import ThinFactor, singular_values


def rank_one_distance(x: Tensor, batch: Tensor | None = None) -> Tensor:
    r"""Rank-one distance (ROD) of the node states, in [0, 2): zero exactly if all nodes carry multiples of one signal.

    .. math:: \mathrm{ROD}(\mathbf{X}) = \left\| \frac{\mathbf{X}}{\|\mathbf{X}\|_*}
              - \sigma \frac{\mathbf{u}\mathbf{v}^\top}{\|\mathbf{u}\mathbf{v}^\top\|_*} \right\|_*

    where :math:`\|\cdot\|_*` is the nuclear norm (the sum of the singular values), :math:`\mathbf{u}` the column and
    :math:`\mathbf{v}` the row of :math:`\mathbf{X}` with the largest Euclidean norm (the first of equals), and
    :math:`\sigma` the sign of :math:`\langle \mathbf{X}, \mathbf{u}\mathbf{v}^\top \rangle`.

    The value does not depend on the scale of ``x``. It is computed in float64 whatever the type of ``x``, to within
    about 1e-15 times the square root of the smaller dimension. It is NaN where it does not exist: for a matrix of
    zeros, for one that holds NaN or infinity and for one without entries.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 2.0], [2.0, 4.0], [1.0, 0.0], [0.0, 1.0]])
        >>> rank_one_distance(x, torch.tensor([0, 0, 1, 1])).round(decimals=6)
        tensor([0., 1.], dtype=torch.float64)
    """
    return per_graph(distance, x, batch)


def distance(factor: ThinFactor) -> Tensor:
    r"""ROD of every matrix of the factor, (B,).

    With :math:`\mathbf{X} = \mathbf{Q}\mathbf{C}` the column is :math:`\mathbf{u} = \mathbf{Q}\mathbf{c}`, where
    :math:`\mathbf{c}` is a column of :math:`\mathbf{C}`: the difference has the singular values of a small matrix.
    """
    core, row = factor.core, factor.longest_row
    longest = torch.linalg.vector_norm(core, dim=1).argmax(dim=1)
    column = core.gather(2, longest[:, None, None].expand(-1, core.size(1), 1)).squeeze(2)
    direction = _unit(column)[:, :, None] * _unit(row)[:, None, :]
    sign = torch.where((core * direction).sum(dim=(1, 2)) < 0, -1.0, 1.0)[:, None, None]
    nuclear = factor.singular_values.sum(dim=1)[:, None, None]
    return singular_values(core / nuclear - sign * direction).sum(dim=1)


def _unit(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    return vector / length
