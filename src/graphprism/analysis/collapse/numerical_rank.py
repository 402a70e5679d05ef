"""The rank of the node states, up to a tolerance."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from graphprism.analysis.collapse._per_graph import per_graph
from graphprism.analysis.collapse._thin_factor import ThinFactor


def numerical_rank(x: Tensor, batch: Tensor | None = None, relative_tolerance: float | None = None) -> Tensor:
    r"""Number of singular values above ``relative_tolerance`` times the largest one.

    The default tolerance is :math:`\max(N, F) \cdot \epsilon`, where :math:`\epsilon` is the machine epsilon of the
    type of ``x`` and N the number of nodes (of the graph): what rounding in that type can add to a matrix of lower
    rank. It is at most :math:`\sqrt{\epsilon}`, else no singular value of a large bfloat16 matrix would count.

    The singular values are computed in float64. The rank of zeros, and of no entries, is 0. It is NaN if ``x`` holds
    NaN or infinity, which is why the result is not of an integer type.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> numerical_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]]))
        tensor(1., dtype=torch.float64)
    """
    if relative_tolerance is not None and not 0 <= relative_tolerance < 1:
        raise ValueError(f"`relative_tolerance` must be in [0, 1), got {relative_tolerance}")
    return per_graph(partial(count_above, relative_tolerance=relative_tolerance), x, batch, zero=(0.0,))


def count_above(factor: ThinFactor, relative_tolerance: float | None = None) -> Tensor:
    """Numerical rank of every matrix of the factor, (B,)."""
    if relative_tolerance is None:
        relative_tolerance = min(max(factor.shape) * factor.eps, factor.eps**0.5)
    values = factor.singular_values
    return (values > relative_tolerance * values[:, :1]).sum(dim=1)
