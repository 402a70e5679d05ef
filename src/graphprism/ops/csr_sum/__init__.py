"""Weighted sums of rows of a matrix, chosen by a CSR structure: the one sparse product everything else is made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphprism.ops.csr_sum import cusparse, embedding_bag, reference
from graphprism.ops.csr_sum.segments import Segments

try:
    from graphprism.ops.csr_sum import triton
except ImportError:  # comes with PyTorch's CUDA builds, and only there
    triton = None  # type: ignore[assignment]

CsrSum = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]

IMPLEMENTATIONS: dict[str, CsrSum] = {
    "reference": reference.csr_sum,
    "embedding_bag": embedding_bag.csr_sum,
    "cusparse": cusparse.csr_sum,
}
if triton is not None:
    IMPLEMENTATIONS["triton"] = lambda rowptr, col, value, dense: triton.csr_sum(
        Segments.cut(rowptr), col, value, dense, rowptr.numel() - 1
    )


def csr_sum(
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    dense: Tensor,
    *,
    segments: Segments | None = None,
    impl: str | None = None,
) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k = p_i}^{p_{i+1} - 1} v_k \, \mathbf{x}_{c_k}`, without autograd.

    Here :math:`p` is ``rowptr``, :math:`c` is ``col``, :math:`v` is ``value`` (ones if `None`) and :math:`\mathbf{x}`
    is ``dense``. The numbers in ``rowptr`` and ``col`` are trusted: `RelationalAdj` has checked them. ``segments``, cut
    from ``rowptr`` once, spare a GPU from cutting them again.

    Shapes: ``rowptr`` (M + 1,), ``col`` (K,), ``value`` (K,), ``dense`` (N, F) -> (M, F)
    """
    if impl is None:
        if segments is not None and can_use_segments(dense):
            return triton.csr_sum(segments, col, value, dense, rowptr.numel() - 1)
        impl = "cusparse" if dense.is_cuda else "embedding_bag"
    if impl not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)} on this machine, got {impl!r}")
    return IMPLEMENTATIONS[impl](rowptr, col, value, dense)


def can_use_segments(dense: Tensor) -> bool:
    """Whether rows cut into pieces serve this matrix: on a GPU with Triton, in a precision not above float32."""
    return triton is not None and dense.is_cuda and dense.dtype != torch.float64
