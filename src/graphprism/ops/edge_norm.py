"""Normalisations of edges: one coefficient per edge, from the degrees of the whole graph."""

from __future__ import annotations

import torch
from torch import Tensor

EDGE_NORMS = ("sym", "dir", "mean", "none")


def edge_norm(
    edge_index: Tensor,
    size: tuple[int, int],
    kind: str,
    edge_weight: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Gives every edge :math:`(j, i)` its coefficient, from degrees that do not know the relations.

    ``"sym"`` :math:`w_{ji} / \sqrt{d^{in}_j d^{in}_i}` as in GCN; ``"dir"`` :math:`w_{ji} / \sqrt{d^{out}_j d^{in}_i}`
    for directed graphs; ``"mean"`` :math:`w_{ji} / d^{in}_i`; ``"none"`` :math:`w_{ji}`. Here :math:`w` is
    ``edge_weight`` (ones if `None`), :math:`d^{in}_i = \sum_j w_{ji}` and :math:`d^{out}_j = \sum_i w_{ji}`; an edge
    whose degree is zero gets coefficient zero.

    Shapes: ``edge_index`` (2, E), ``edge_weight`` (E,) -> (E,)
    """
    if kind not in EDGE_NORMS:
        raise ValueError(f"`norm` must be one of {list(EDGE_NORMS)}, got {kind!r}")
    if kind == "sym" and size[0] != size[1]:
        raise ValueError(f'`norm="sym"` needs as many sources as targets, got {size[0]} and {size[1]}; use "dir"')
    src, dst = edge_index
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
    elif dtype is not None:
        edge_weight = edge_weight.to(dtype)
    if kind == "none":
        return edge_weight
    degree_in = edge_weight.new_zeros(size[1]).index_add(0, dst, edge_weight)
    if kind == "mean":
        return edge_weight * _power(degree_in, -1.0)[dst]
    degree_src = degree_in if kind == "sym" else edge_weight.new_zeros(size[0]).index_add(0, src, edge_weight)
    return _power(degree_src, -0.5)[src] * edge_weight * _power(degree_in, -0.5)[dst]


def _power(degree: Tensor, exponent: float) -> Tensor:
    # the inner `where` keeps infinity, and its NaN gradient, from ever being formed
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1).pow(exponent), 0)
