"""Weighted sums of rows of a matrix, chosen by a CSR structure: the one sparse product everything else is made of."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from graphprism.ops.csr_sum import cusparse, embedding_bag, reference

CsrSum = Callable[[Tensor, Tensor, Tensor | None, Tensor], Tensor]

IMPLEMENTATIONS: dict[str, CsrSum] = {
    "reference": reference.csr_sum,
    "embedding_bag": embedding_bag.csr_sum,
    "cusparse": cusparse.csr_sum,
}


def csr_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Computes :math:`\mathbf{y}_i = \sum_{k = p_i}^{p_{i+1} - 1} v_k \, \mathbf{x}_{c_k}`, without autograd.

    Here :math:`p` is ``rowptr``, :math:`c` is ``col``, :math:`v` is ``value`` (ones if `None`) and :math:`\mathbf{x}`
    is ``dense``. The numbers in ``rowptr`` and ``col`` are trusted: `RelationalAdj` has checked them.

    Shapes: ``rowptr`` (M + 1,), ``col`` (K,), ``value`` (K,), ``dense`` (N, F) -> (M, F)
    """
    name = impl or _choose(dense)
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)} on this machine, got {impl!r}")
    return IMPLEMENTATIONS[name](rowptr, col, value, dense)


def _choose(dense: Tensor) -> str:
    return "cusparse" if dense.is_cuda else "embedding_bag"
