"""Classes from a number per node."""

from __future__ import annotations

import numpy as np

from graphprism.packed import Array


def quantile_labels(values: Array, num_classes: int) -> Array:
    r"""Cuts values (N,) into classes (N,) at their quantiles, so that the classes are about as large as one another.

    .. math:: y_i = |\{k \in 1 \dots C - 1 : v_i \ge q_{k / C}\}|

    where :math:`q_p` is the :math:`p`-quantile of all values, interpolated between the two next to it. A value on a
    boundary belongs to the class above it; a value that is NaN counts for no quantile and gets class -1.

    >>> quantile_labels(np.array([2001, 2002, 2002, 2003, 2004]), 5)
    array([0, 2, 2, 3, 4])
    """
    known = ~np.isnan(values)
    if values.ndim != 1 or not known.any():
        raise ValueError(f"`values` must hold numbers in shape [N], got shape {list(values.shape)}")
    bounds = np.quantile(values[known], np.arange(1, num_classes) / num_classes)
    return np.where(known, np.searchsorted(bounds, values, side="right"), -1)
