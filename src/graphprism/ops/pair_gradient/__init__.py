"""The gradient of the matrices that pairs of a node and a relation are multiplied by; see `pair_products`."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType

from torch import Tensor

from graphprism.ops.forms import Forms
from graphprism.ops.pair_gradient import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.pair_gradient import triton

    IMPLEMENTATIONS.add_kernels(triton)


def pair_gradient(
    x: Tensor,
    back: Tensor,
    matrix: Tensor,
    num_relations: int,
    active: Tensor | None = None,
    first: Tensor | None = None,
    *,
    impl: str | None = None,
) -> Tensor:
    """The gradient of matrices side by side, in the order in which they are stored; of L layers at once.

    Rows of pairs in tiles that are not active count as zeros. ``first`` takes the place of the first layer of ``x``,
    which then may hold anything.

    Shapes: ``x`` (L * K, N, F), ``back`` (L * K, N, R * F'), ``matrix`` (K, F, R * F'), ``active`` (K, N / 64),
    ``first`` (K, N, F) -> (L * K, R, F, F')
    """
    form = _choose(x, matrix, active, impl)
    out: Tensor = form.pair_gradient(x, back, matrix, num_relations, active, first)
    return out


def reads_active(x: Tensor, matrix: Tensor, active: Tensor | None) -> bool:
    """Whether nobody reads pairs that are not active on the way back, so that nobody has to write them."""
    return _choose(x, matrix, active, None) is not reference


def _choose(x: Tensor, matrix: Tensor, active: Tensor | None, impl: str | None) -> ModuleType:
    return IMPLEMENTATIONS.choose(impl, lambda kernels: active is not None and kernels.takes(x, matrix, active))
