"""Sums of rows by index, in float32 at least."""

from __future__ import annotations

import torch
from torch import Tensor


def index_sum(rows: Tensor, index: Tensor, size: int) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k : c_k = i} \mathbf{x}_k`; half precisions are summed in float32.

    Shapes: ``rows`` (K, ...), ``index`` (K,) -> (size, ...)
    """
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    return wide.new_zeros(size, *rows.shape[1:]).index_add(0, index, wide).to(rows.dtype)
