"""Sums over the slots of a `PaddedAdj`, for K graphs of one shape: the products behind its ops."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.backends import Backends


def slot_sum_reference(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relu: bool,
    root: tuple[Tensor, Tensor] | None,
    out: Tensor,
) -> None:
    """The definition: gathers and weighs the row of every slot, then sums; never optimised."""
    total = _entries(rows, place, weight).sum(dim=2)
    total = total if root is None else total + (1 + root[1].to(rows.dtype))[:, None, None] * root[0]
    total = total if bias is None else total + bias[:, None]
    out.copy_(total.relu() if relu else total)


def slot_split_sum_reference(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_relations: int,
    gate: Tensor | None,
    active: Tensor | None,
    parts: Tensor | None,
    out: Tensor,
) -> None:
    """The definition of the sums by relation; zero where no slot has the relation."""
    rows = rows if gate is None else torch.where(gate > 0, rows, 0)
    entry = _entries(rows, place, weight)
    chosen = (relation == r if num_relations > 1 else weight != 0 for r in range(num_relations))
    sums = [torch.where(each[..., None], entry, 0).sum(dim=2) for each in chosen]
    out.copy_(torch.stack(sums, dim=2).flatten(2))
    if parts is not None:
        parts.copy_(rows.sum(dim=1, keepdim=True))


def empty_parts_reference(rows: Tensor, num_layers: int) -> Tensor:
    """One part for all rows."""
    return rows.new_empty(num_layers, rows.size(0), 1, rows.size(2))


def gated_column_sum_reference(rows: Tensor, gate: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The definition: sums the rows where the gate is positive."""
    return (rows if gate is None else torch.where(gate > 0, rows, 0)).sum(dim=1).to(dtype)


def _entries(rows: Tensor, place: Tensor, weight: Tensor) -> Tensor:
    """(K, M, F) gathered at (K, N, D) and weighted: (K, N, D, F); zero for slots of weight zero, even of NaN rows."""
    first = torch.arange(rows.size(0), device=rows.device)[:, None, None] * rows.size(1)
    weight = weight[..., None].to(rows.dtype)
    return torch.where(weight != 0, rows.flatten(0, 1)[place.long() + first] * weight, 0)


SLOT_SUM = Backends(reference=slot_sum_reference, triton="graphprism.ops.kernels.slot_sum:slot_sum")
SLOT_SPLIT_SUM = Backends(reference=slot_split_sum_reference, triton="graphprism.ops.kernels.slot_sum:slot_split_sum")
EMPTY_PARTS = Backends(reference=empty_parts_reference, triton="graphprism.ops.kernels.slot_sum:empty_parts")
GATED_COLUMN_SUM = Backends(
    reference=gated_column_sum_reference, triton="graphprism.ops.kernels.slot_sum:gated_column_sum"
)


def slot_sum(
    rows: Tensor,
    place: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    *,
    root: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
    impl: str | None = None,
) -> Tensor:
    r"""Computes :math:`\mathbf{y}_{k,i} = \mathbf{b}_k + \sum_d w_{k,i,d} \, \mathbf{x}_{k, p(k,i,d)}`.

    Without autograd. ``root``, rows :math:`\mathbf{z}` (K, N, F) and numbers :math:`\epsilon` (K,), adds
    :math:`(1 + \epsilon_k) \mathbf{z}_{k,i}`. With ``relu``, ReLU is applied last. Rows at slots of weight zero are
    ignored, even NaN. The result is written to ``out`` if given.

    Shapes: ``rows`` (K, M, F), ``place`` and ``weight`` (K, N, D), ``bias`` (K, F) -> (K, N, F)
    """
    out = rows.new_empty(*place.shape[:2], rows.size(2)) if out is None else out
    SLOT_SUM.choose(impl, rows.device)(rows, place, weight, bias, relu, root, out)
    return out


def slot_split_sum(
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
    r"""Concatenates one sum per relation: slot d of a node only counts in ``relation[d]``.

    ``gate`` is the output of a ReLU: rows only count where it is positive, and may be NaN elsewhere. ``active`` holds
    the relations of each tile of 64 nodes, see `pair_products`: the result is undefined for the others. ``parts``, a
    layer of `empty_parts`, receives partial column sums of ``rows``, each of a few rows; M = N then.

    Shapes: ``rows`` and ``gate`` (K, M, F), ``place``, ``weight``, ``relation`` (K, N, D), ``active`` (K, N / 64),
    ``parts`` (K, P, F) -> (K, N, R * F)
    """
    out = rows.new_empty(*place.shape[:2], num_relations * rows.size(2)) if out is None else out
    SLOT_SPLIT_SUM.choose(impl, rows.device)(rows, place, weight, relation, num_relations, gate, active, parts, out)
    return out


def empty_parts(rows: Tensor, num_layers: int, *, impl: str | None = None) -> Tensor:
    """Uninitialised ``parts`` of `slot_split_sum` for L layers: (K, N, F) -> (L, K, P, F)."""
    out: Tensor = EMPTY_PARTS.choose(impl, rows.device)(rows, num_layers)
    return out


def gated_column_sum(
    rows: Tensor, gate: Tensor | None = None, dtype: torch.dtype | None = None, *, impl: str | None = None
) -> Tensor:
    """Column sums of the entries whose gate is positive, in ``dtype`` or the type of the rows.

    Shapes: ``rows`` and ``gate`` (K, N, F) -> (K, F)
    """
    out: Tensor = GATED_COLUMN_SUM.choose(impl, rows.device)(rows, gate, dtype or rows.dtype)
    return out
