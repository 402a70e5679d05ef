"""Products of rows with one matrix per relation, for K graphs of one shape, which leave out what nobody sends.

A *pair* is a node and a relation. Half of the pairs of a molecule split by degree send nothing: their product is read
by nobody, and the gradient that they would get is zero. Where nodes with the same relations stand together, whole tiles
of rows can be left out; ``active`` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

from torch import Tensor

from graphprism.ops.forms import Forms
from graphprism.ops.pair_products import reference
from graphprism.ops.pair_products.tile import MOST_RELATIONS as MOST_RELATIONS
from graphprism.ops.pair_products.tile import TILE as TILE

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.pair_products import triton

    IMPLEMENTATIONS.add_kernels(triton)


def pair_product(x: Tensor, matrix: Tensor, active: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    """Multiplies every row by the matrices of all relations, side by side; without autograd.

    Rows of pairs in tiles that are not active may hold anything. In float32 tiles are left out where the matrix is
    stored with the summed channels last.

    Shapes: ``x`` (K, N, F), ``matrix`` (K, F, R * F'), ``active`` (K, N / 64) -> (K, N, R * F')
    """
    out: Tensor = _choose(matrix, active, impl).pair_product(x, matrix, active)
    return out


def pair_product_back(
    back: Tensor,
    matrix: Tensor,
    active: Tensor | None = None,
    gate: Tensor | None = None,
    *,
    out: Tensor,
    impl: str | None = None,
) -> None:
    """The way back: sums over relations of rows times the transposed matrices, zero where ``gate`` is not positive.

    Rows of pairs in tiles that are not active count as zeros.

    Shapes: ``back`` (K, N, R * F'), ``matrix`` (K, F, R * F'), ``gate`` and ``out`` (K, N, F)
    """
    _choose(matrix, active, impl).pair_product_back(back, matrix, active, gate, out)


def turn_matrices(matrices: Sequence[Tensor], active: Tensor | None = None, *, impl: str | None = None) -> list[Tensor]:
    """The same matrices (K, F, R * F'), stored as `pair_product_back` likes to read them; copied only where needed."""
    found: list[Tensor] = _choose(matrices[0], active, impl).turn_matrices(matrices)
    return found


def _choose(matrix: Tensor, active: Tensor | None, impl: str | None) -> ModuleType:
    return IMPLEMENTATIONS.choose(impl, lambda kernels: active is not None and kernels.takes(matrix))
