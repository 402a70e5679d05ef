"""Weighted sums of rows of a matrix, chosen by a CSR structure: the one sparse product everything else is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from graphprism.ops.csr_sum import embedding_bag, reference
from graphprism.ops.csr_sum.segments import Segments

try:
    from graphprism.ops.csr_sum import triton
except ImportError:  # comes with PyTorch's CUDA builds, and only there
    triton = None  # type: ignore[assignment]

CsrSum = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]

IMPLEMENTATIONS: dict[str, CsrSum] = {"reference": reference.csr_sum, "embedding_bag": embedding_bag.csr_sum}
if triton is not None:
    IMPLEMENTATIONS["triton"] = lambda rowptr, col, value, dense: triton.csr_sum(
        Segments.cut(rowptr), col, value, dense, rowptr.numel() - 1
    )


def csr_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k = p_i}^{p_{i+1} - 1} v_k \, \mathbf{x}_{c_k}`, without autograd.

    Here :math:`p` is ``rowptr``, :math:`c` is ``col``, :math:`v` is ``value`` (ones if `None`) and :math:`\mathbf{x}`
    is ``dense``. The numbers in ``rowptr`` and ``col`` are trusted: `RelationalAdj` has checked them.

    Shapes: ``rowptr`` (M + 1,), ``col`` (K,), ``value`` (K,), ``dense`` (N, F) -> (M, F)
    """
    name = impl or ("triton" if _fills_a_gpu(col, dense) else "embedding_bag")
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)} on this machine, got {impl!r}")
    return IMPLEMENTATIONS[name](rowptr, col, value, dense)


def span_sum(
    cache: dict[Any, Any],
    rowptr: Tensor,
    span: tuple[int, int],
    col: Tensor,
    value: Tensor | None,
    dense: Tensor,
    key: object,
) -> Tensor:
    """`csr_sum` over a run of rows of a larger structure, whose entries are those of ``span``.

    ``rowptr`` counts entries from the first of the whole structure. What a GPU derives from it is kept in ``cache``
    under ``key``, so that it is derived once.
    """
    if _fills_a_gpu(col, dense):
        if ("segments", key) not in cache:
            cache["segments", key] = Segments.cut(rowptr)
        return triton.csr_sum(cache["segments", key], col, value, dense, rowptr.numel() - 1)
    first, last = span
    part = None if value is None else value[first:last]
    return csr_sum(rowptr - first if first else rowptr, col[first:last], part, dense)


def _fills_a_gpu(col: Tensor, dense: Tensor) -> bool:
    # below, what counts is the time to launch: about 50 us for a Triton kernel, 15 us for one of PyTorch's
    return triton is not None and dense.is_cuda and col.numel() * dense.size(1) >= 1 << 22
