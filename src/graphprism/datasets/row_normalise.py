"""Features that add up to one in every row."""

from __future__ import annotations

from torch import Tensor

from graphprism._checks import check_no_nan, check_shape


def row_normalise(x: Tensor) -> Tensor:
    r"""Divides every row by its sum: (N, F) -> (N, F), in float32 or the precision of ``x``.

    .. math:: x'_{if} = \frac{x_{if} - m}{\sum_g (x_{ig} - m)}, \qquad m = \min(0, \min_{jg} x_{jg})

    A row whose sum is zero stays zero. Features with negative entries, such as word vectors, are first lifted by the
    smallest of all. Where no sum lies between 0 and 1, as in all sets here, this is PyG's `NormalizeFeatures`.

    >>> import torch
    >>> row_normalise(torch.tensor([[1, 3], [0, 0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    check_shape("x", x, ["N", "F"])
    check_no_nan("x", x)
    lifted = x.clone() if x.is_floating_point() else x.float()
    if lifted.numel() == 0:
        return lifted
    lifted -= lifted.min().clamp(max=0)
    total = lifted.sum(1, keepdim=True)
    return lifted.div_(total.masked_fill_(total == 0, 1))
