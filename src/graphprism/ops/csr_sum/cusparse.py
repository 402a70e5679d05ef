"""`csr_sum` by PyTorch's sparse CSR product (cuSPARSE on CUDA, MKL on CPU)."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor


def csr_sum(rowptr: Tensor, col: Tensor, value: Tensor | None, dense: Tensor) -> Tensor:
    """One sparse matrix product; without values the matrix holds ones."""
    if col.numel() == 0 or dense.size(1) == 0:
        return dense.new_zeros(rowptr.numel() - 1, dense.size(1))
    value = dense.new_ones(col.numel()) if value is None else value
    size = (rowptr.numel() - 1, dense.size(0))
    with warnings.catch_warnings():  # once per process: the layout is a beta feature; its invariants are not checked
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        matrix = torch.sparse_csr_tensor(rowptr, col, value, size, check_invariants=False)
    return matrix @ dense
