"""Sums over the slots of a table, for K graphs of one shape: the products behind `graphprism.ops.TableAdj`."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType

import torch
from torch import Tensor

from graphprism.ops.forms import Forms
from graphprism.ops.table_sum import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.table_sum import triton

    IMPLEMENTATIONS.add_kernels(triton)


def table_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    *,
    out: Tensor | None = None,
    impl: str | None = None,
) -> Tensor:
    r"""Computes :math:`\mathbf{y}_{k,i} = \mathbf{b}_k + \sum_d w_{k,i,d} \, \mathbf{x}_{k, p(k,i,d)}`.

    Without autograd. Then ReLU, if asked for. What a slot of weight zero points to does not count, be it NaN. The
    result goes to ``out`` where that is given.

    Shapes: ``rows`` (K, M, F), ``place`` and ``weight`` (K, N, D), ``bias`` (K, F) -> (K, N, F)
    """
    out = rows.new_empty(*place.shape[:2], rows.size(2)) if out is None else out
    _choose(rows, impl).table_sum(rows, place, weight, bias, relu, out)
    return out


def table_split_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_relations: int,
    gate: Tensor | None = None,
    active: Tensor | None = None,
    parts: Tensor | None = None,
    *,
    out: Tensor | None = None,
    impl: str | None = None,
) -> Tensor:
    r"""The same sums for each relation apart, side by side: slot d of a node counts in ``relation[d]`` alone.

    ``gate`` is the output of a ReLU: rows count only where it is positive, and may be NaN elsewhere. ``active`` says
    which relations the slots of 64 nodes in a row have, see `graphprism.ops.pair_products`: the result may hold
    anything for the others. ``parts``, a layer of `empty_parts`, gets sums of a few rows each (M = N then): all of them
    together are the sums of columns.

    Shapes: ``rows`` and ``gate`` (K, M, F), ``place``, ``weight``, ``relation`` (K, N, D), ``active`` (K, N / 64),
    ``parts`` (K, P, F) -> (K, N, R * F)
    """
    out = rows.new_empty(*place.shape[:2], num_relations * rows.size(2)) if out is None else out
    _choose(rows, impl).table_split_sum(rows, place, weight, relation, num_relations, gate, active, parts, out)
    return out


def empty_parts(rows: Tensor, num_layers: int, *, impl: str | None = None) -> Tensor:
    """Where `table_split_sum` puts sums of rows: (K, N, F) -> (L, K, P, F)."""
    out: Tensor = _choose(rows, impl).empty_parts(rows, num_layers)
    return out


def gated_column_sum(
    rows: Tensor, gate: Tensor | None = None, dtype: torch.dtype | None = None, *, impl: str | None = None
) -> Tensor:
    """Sums of columns, of the numbers whose gate is positive, in the type of the rows or another.

    Shapes: ``rows`` and ``gate`` (K, N, F) -> (K, F)
    """
    out: Tensor = _choose(rows, impl).gated_column_sum(rows, gate, dtype or rows.dtype)
    return out


def _choose(rows: Tensor, impl: str | None) -> ModuleType:
    return IMPLEMENTATIONS.choose(impl, lambda kernels: rows.is_cuda)
