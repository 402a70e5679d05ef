"""Products of rows with one matrix per relation, for K graphs of one shape, skipping pairs without outgoing edges.

A *pair* is a node and a relation. Half of the pairs of a molecule split by degree send nothing: their product is never
read, and their gradient is zero. If nodes with the same outgoing relations are adjacent, whole tiles of rows can be
skipped: bit r of ``active[k, t]`` is set if some row of tile t of graph k sends by relation r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends

# Rows of a tile.
TILE = 64
# Most relations: they are bits of one positive int32, with one bit to spare.
MOST_RELATIONS = 30


def of_active(back: Tensor, num_relations: int, active: Tensor | None) -> Tensor:
    """Rows of pairs, (K, N, R * F), with zeros for those in tiles that are not active."""
    if active is None:
        return back
    there = (active[..., None] >> torch.arange(num_relations, device=back.device) & 1).bool()  # (K, T, R)
    rows = there.repeat_interleave(TILE, dim=1)[:, : back.size(1), :, None]
    return torch.where(rows, back.unflatten(2, (num_relations, -1)), 0).flatten(2)


def product_reference(x: Tensor, matrix: Tensor, active: Tensor | None) -> Tensor:
    """The definition: one product with all matrices, active or not."""
    return torch.bmm(x, matrix)


def product_back_reference(
    back: Tensor, matrix: Tensor, active: Tensor | None, gate: Tensor | None, out: Tensor
) -> None:
    """One product with all matrices, with zeros for what is not active."""
    torch.bmm(of_active(back, back.size(2) // matrix.size(1), active), matrix.transpose(1, 2), out=out)
    if gate is not None:
        out.masked_fill_(~(gate > 0), 0)


def turn_reference(matrices: Sequence[Tensor]) -> list[Tensor]:
    """The matrices unchanged."""
    return list(matrices)


def gradient_reference(
    x: Tensor, back: Tensor, matrix: Tensor, num_relations: int, active: Tensor | None, first: Tensor | None
) -> Tensor:
    """The definition: one product of everything, with zeros for what is not active."""
    x = x if first is None else torch.cat([first, x[first.size(0) :]])
    back = of_active(back, num_relations, None if active is None else active.repeat(x.size(0) // active.size(0), 1))
    in_channels, sizes = x.size(2), (num_relations, back.size(2) // num_relations)
    if matrix.stride(2) == 1:
        return torch.bmm(x.transpose(1, 2), back).view(x.size(0), in_channels, *sizes).transpose(1, 2)
    return torch.bmm(back.transpose(1, 2), x).view(x.size(0), *sizes, in_channels).transpose(2, 3)


PRODUCT = Backends(reference=product_reference, triton="graphprism.ops.kernels.pair_products:pair_product")
PRODUCT_BACK = Backends(
    reference=product_back_reference, triton="graphprism.ops.kernels.pair_products:pair_product_back"
)
TURN = Backends(reference=turn_reference, triton="graphprism.ops.kernels.pair_products:turn_matrices")
GRADIENT = Backends(reference=gradient_reference, triton="graphprism.ops.kernels.pair_gradient:pair_gradient")


def pair_product(x: Tensor, matrix: Tensor, active: Tensor | None = None, *, impl: str | None = None) -> Tensor:
    """Multiplies every row by the matrices of all relations, side by side; without autograd.

    Rows of pairs in tiles that are not active are undefined. In float32, tiles are only skipped if the matrix is stored
    with the summed channels last.

    Shapes: ``x`` (K, N, F), ``matrix`` (K, F, R * F'), ``active`` (K, N / 64) -> (K, N, R * F')
    """
    out: Tensor = PRODUCT.choose(impl, matrix.device, _fits(matrix, active))(x, matrix, active)
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
    """Gradient of ``x`` in `pair_product`, set to zero where ``gate`` is not positive; without autograd.

    Rows of pairs in tiles that are not active count as zeros.

    Shapes: ``back`` (K, N, R * F'), ``matrix`` (K, F, R * F'), ``gate`` and ``out`` (K, N, F)
    """
    PRODUCT_BACK.choose(impl, matrix.device, _fits(matrix, active))(back, matrix, active, gate, out)


def turn_matrices(matrices: Sequence[Tensor], active: Tensor | None = None, *, impl: str | None = None) -> list[Tensor]:
    """The same matrices (K, F, R * F') in the layout that `pair_product_back` reads; copied only if it differs."""
    backend = TURN.choose(impl, matrices[0].device, _fits(matrices[0], active))
    found: list[Tensor] = backend(matrices)
    return found


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
    """Gradient of ``matrix`` in `pair_product`, in its memory layout, for L layers at once; without autograd.

    Rows of pairs in tiles that are not active count as zeros. ``first`` replaces the first layer of ``x``, which is
    then not read.

    Shapes: ``x`` (L * K, N, F), ``back`` (L * K, N, R * F'), ``matrix`` (K, F, R * F'), ``active`` (K, N / 64),
    ``first`` (K, N, F) -> (L * K, R, F, F')
    """
    backend = _choose_gradient(x, matrix, active, impl)
    out: Tensor = backend(x, back, matrix, num_relations, active, first)
    return out


def reads_active(x: Tensor, matrix: Tensor, active: Tensor | None) -> bool:
    """Whether the backward pass skips pairs that are not active, so that they need not be written."""
    return _choose_gradient(x, matrix, active, None) is not gradient_reference


def _fits(matrix: Tensor, active: Tensor | None) -> Callable[[ModuleType], bool]:
    return lambda kernels: active is not None and kernels.takes(matrix)


def _choose_gradient(x: Tensor, matrix: Tensor, active: Tensor | None, impl: str | None) -> Callable[..., Any]:
    return GRADIENT.choose(impl, x.device, lambda kernels: active is not None and kernels.takes(x, matrix, active))
