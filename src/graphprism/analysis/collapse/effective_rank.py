"""How many directions the node states really use."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.analysis.collapse._per_graph import per_graph
from graphprism.analysis.collapse._thin_factor import ThinFactor


def effective_rank(x: Tensor, batch: Tensor | None = None) -> Tensor:
    r"""Effective rank: the exponential of the entropy of the singular values (Roy and Vetterli, 2007).

    .. math:: \mathrm{erank}(\mathbf{X}) = \exp\Bigl(-\sum_k p_k \log p_k\Bigr), \qquad
              p_k = \frac{\sigma_k}{\sum_l \sigma_l}

    where :math:`\sigma_k` are the singular values of :math:`\mathbf{X}`. It lies between 1 (rank one) and the rank
    (all nonzero singular values equal), and depends neither on the scale of ``x`` nor on a rotation of the channels.
    Computed in float64. NaN where it does not exist: zeros only, NaN or infinity inside, no entries.

    Shapes: ``x`` (N, F), ``batch`` (N,) -> () without ``batch``, (G,) with it: one value per graph

    Example:
        >>> import torch
        >>> effective_rank(torch.eye(4)).round(decimals=6)
        tensor(4., dtype=torch.float64)
    """
    return per_graph(exponential_entropy, x, batch)


def exponential_entropy(factor: ThinFactor) -> Tensor:
    """Effective rank of every matrix of the factor, (B,)."""
    values = factor.singular_values
    share = values / values.sum(dim=1, keepdim=True)
    entropy: Tensor = torch.special.entr(share).sum(dim=1)
    return entropy.exp()
