"""Dropout of the features themselves, before the first layer."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.dropout import dropout
from graphprism.ops.sparse_features import sparse_with_values


def input_dropout(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Sets a share of the features to zero and scales the others, so that their mean stays; ``x`` is left as it is.

    Of a sparse CSR tensor only what it stores is drawn for: a zero that is dropped is a zero.

    Args:
        x: (N, F) features, dense or in CSR.
        share: Of features that are dropped, in [0, 1).
        generator: Decides what is dropped, on the device of ``x``; no number is drawn where the share is 0.

    >>> sorted(set(input_dropout(torch.ones(50, 2), 0.5).flatten().tolist()))
    [0.0, 2.0]
    """
    if share == 0:
        return x
    if x.layout == torch.sparse_csr:
        return sparse_with_values(x, dropout(x.values(), share, generator))
    return dropout(x, share, generator)
