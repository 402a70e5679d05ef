"""Normalisations of edges: one coefficient per edge, from the degrees of the whole graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from graphprism._checks import (
    check_floating,
    check_integer,
    check_same_device,
    check_shape,
    check_sizes,
    guard_ranges,
)
from graphprism._text import suggest
from graphprism.ops.backends import is_transformed


def edge_norm(
    edge_index: Tensor,
    size: tuple[int, int],
    kind: str,
    edge_weight: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Computes the coefficient of every edge :math:`(j, i)`, from degrees over all relations together.

    ``"sym"`` :math:`w_{ji} / (\sqrt{d^{in}_j} \sqrt{d^{in}_i})` as in GCN; ``"dir"`` :math:`w_{ji} / (\sqrt{d^{out}_j}
    \sqrt{d^{in}_i})` for directed graphs; ``"mean"`` :math:`w_{ji} / d^{in}_i`; ``"none"`` :math:`w_{ji}`. Here
    :math:`w` is ``edge_weight`` (ones if `None`), :math:`d^{in}_i = \sum_j w_{ji}` and :math:`d^{out}_j = \sum_i
    w_{ji}`. The coefficient is zero if the formula is undefined: if a degree is zero, or negative under the root of
    ``"sym"`` or ``"dir"``. Weights may be negative; the coefficients of ``"mean"`` sum to one at every node whose
    degree is not zero. Half precisions are computed in float32.

    Shapes: ``edge_index`` (2, E), ``edge_weight`` (E,) -> (E,)
    """
    check_norm(kind, dtype)
    check_shape("edge_index", edge_index, [2, "E"])
    check_integer("edge_index", edge_index)
    size = check_sizes("size", size)
    if edge_weight is not None:
        check_shape("edge_weight", edge_weight, [edge_index.size(1)])
        check_floating("edge_weight", edge_weight)
        check_same_device("edge_weight", edge_weight, "edge_index", edge_index)
    guard_ranges({f"edge_index[{end}]": (edge_index[end], size[end]) for end in (0, 1)})
    return trusted_norm(edge_index, size, kind, edge_weight, dtype)


def check_norm(kind: object, dtype: object = None) -> None:
    """Raises unless ``kind`` is one of `EDGE_NORMS` and ``dtype`` is None or a floating-point dtype."""
    if not isinstance(kind, str) or kind not in _NORMS:
        close = suggest(kind, EDGE_NORMS) if isinstance(kind, str) else ""
        raise ValueError(f"`norm` must be one of {list(EDGE_NORMS)} (a norm of edges), got {kind!r}{close}")
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"`dtype` must be a floating-point type of torch, got {dtype!r}")


def trusted_norm(
    edge_index: Tensor, size: tuple[int, int], kind: str, edge_weight: Tensor | None, dtype: torch.dtype | None
) -> Tensor:
    """`edge_norm` without checks, for edges that a `RelationalAdj` has validated."""
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
    dtype = dtype or edge_weight.dtype
    # bfloat16 cannot represent all integers above 256
    wide = edge_weight.to(torch.promote_types(dtype, torch.float32))
    return _NORMS[kind](edge_index, size, wide).to(dtype)


def _sym(edge_index: Tensor, size: tuple[int, int], weight: Tensor) -> Tensor:
    if size[0] != size[1]:
        raise ValueError(f'`norm="sym"` needs as many sources as targets, got {size[0]} and {size[1]}; use "dir"')
    source, target = edge_index.unbind()
    root = _root(_degree(target, size[1], weight))
    return root.index_select(0, source) * weight * root.index_select(0, target)


def _dir(edge_index: Tensor, size: tuple[int, int], weight: Tensor) -> Tensor:
    root_src, root_dst = (_root(_degree(edge_index[end], size[end], weight)) for end in (0, 1))
    return root_src[edge_index[0]] * weight * root_dst[edge_index[1]]


def _mean(edge_index: Tensor, size: tuple[int, int], weight: Tensor) -> Tensor:
    degree = _degree(edge_index[1], size[1], weight)
    return weight * _power(degree, -1.0, degree != 0)[edge_index[1]]


def _none(edge_index: Tensor, size: tuple[int, int], weight: Tensor) -> Tensor:
    return weight


# A norm is a function of ``edge_index`` (2, E), sizes and weights (E,) in float32 at least. A plain mapping beside the
# public one, which torch 2.6 cannot compile.
_NORMS: dict[str, Callable[[Tensor, tuple[int, int], Tensor], Tensor]] = {
    "sym": _sym,
    "dir": _dir,
    "mean": _mean,
    "none": _none,
}
EDGE_NORMS: Mapping[str, Callable[[Tensor, tuple[int, int], Tensor], Tensor]] = MappingProxyType(_NORMS)


def _degree(node: Tensor, size: int, weight: Tensor) -> Tensor:
    zeros = weight.new_zeros(size)
    # in place, one kernel less, except where edges are those of many runs and the zeros are not
    return zeros.index_add(0, node, weight) if is_transformed() else zeros.index_add_(0, node, weight)


def _root(degree: Tensor) -> Tensor:
    if degree.requires_grad or is_transformed() or unpack_dual(degree).tangent is not None:
        return _power(degree, -0.5, degree > 0)  # a tangent of infinity would be NaN
    # the same numbers in two kernels instead of four: infinity is of no edges, NaN of negative sums
    return degree.pow(-0.5).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def _power(degree: Tensor, exponent: float, valid: Tensor) -> Tensor:
    # the inner `where` keeps infinity, and its NaN gradient, from ever being formed
    return torch.where(valid, torch.where(valid, degree, 1).pow(exponent), 0)
