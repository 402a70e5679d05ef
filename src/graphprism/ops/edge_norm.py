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

    ``"sym"`` :math:`w_{ji} / (\sqrt{d^{in}_j} \sqrt{d^{in}_i})` as in GCN; ``"dir"`` :math:`w_{ji} / (\sqrt{d^{out}_j}
    \sqrt{d^{in}_i})` for directed graphs; ``"mean"`` :math:`w_{ji} / d^{in}_i`; ``"none"`` :math:`w_{ji}`. Here
    :math:`w` is ``edge_weight`` (ones if `None`), :math:`d^{in}_i = \sum_j w_{ji}` and :math:`d^{out}_j = \sum_i
    w_{ji}`. An edge gets coefficient zero where the formula has no value: where a degree is zero, and where ``"sym"``
    or ``"dir"`` would need the root of a negative one. Weights may be negative: the coefficients of ``"mean"`` add up
    to one at every node whose degree is not zero. Half precisions are computed in float32.

    Shapes: ``edge_index`` (2, E), ``edge_weight`` (E,) -> (E,)
    """
    if kind not in EDGE_NORMS:
        raise ValueError(f"`norm` must be one of {list(EDGE_NORMS)}, got {kind!r}")
    if kind == "sym" and size[0] != size[1]:
        raise ValueError(f'`norm="sym"` needs as many sources as targets, got {size[0]} and {size[1]}; use "dir"')
    src, dst = edge_index
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
    dtype = dtype or edge_weight.dtype
    if kind == "none":
        return edge_weight.to(dtype)
    # bfloat16 cannot count further than 256
    edge_weight = edge_weight.to(torch.promote_types(dtype, torch.float32))
    degree_in = edge_weight.new_zeros(size[1]).index_add(0, dst, edge_weight)
    if kind == "mean":
        return (edge_weight * _power(degree_in, -1.0, degree_in != 0)[dst]).to(dtype)
    degree_src = degree_in if kind == "sym" else edge_weight.new_zeros(size[0]).index_add(0, src, edge_weight)
    root_src, root_dst = (_power(degree, -0.5, degree > 0) for degree in (degree_src, degree_in))
    return (root_src[src] * edge_weight * root_dst[dst]).to(dtype)


def _power(degree: Tensor, exponent: float, valid: Tensor) -> Tensor:
    # the inner `where` keeps infinity, and its NaN gradient, from ever being formed
    return torch.where(valid, torch.where(valid, degree, 1).pow(exponent), 0)
