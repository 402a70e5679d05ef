"""The inner product of two rows for every entry: the gradient of a weighted sum with respect to its weights."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 1 << 16  # rows gathered at once, so that the gathered copies stay small beside the matrices


def entry_dot(left: Tensor, left_row: Tensor, right: Tensor, right_row: Tensor) -> Tensor:
    r"""Computes :math:`\langle \mathbf{a}_{l_k}, \mathbf{b}_{r_k} \rangle` for every entry :math:`k`.

    Shapes: ``left`` (N, F), ``left_row`` (K,), ``right`` (M, F), ``right_row`` (K,) -> (K,)
    """
    rows = zip(left_row.split(_CHUNK), right_row.split(_CHUNK), strict=True)
    return torch.cat([(left[a] * right[b]).sum(dim=1) for a, b in rows])
