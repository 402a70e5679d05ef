"""What every node would send in every relation."""

from __future__ import annotations

import math

from torch import Tensor


def relational_transform(x: Tensor, weight: Tensor) -> Tensor:
    r"""Computes :math:`\mathbf{h}_{j, r} = \mathbf{W}_r^\top \mathbf{x}_j` for all nodes and relations in one product.

    Shapes: ``x`` (N, F_in), ``weight`` (R, F_in, F_out) -> (N, R, F_out)
    """
    num_relations, in_channels, out_channels = weight.shape
    flat = x @ weight.transpose(0, 1).reshape(in_channels, num_relations * out_channels)
    # sizes in full: -1 is ambiguous where there are no channels
    return flat.view(math.prod(x.shape[:-1]), num_relations, out_channels)
