"""Comparing the values of an ordering so that rounding decides nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike
from graphprism.splitting.orderings import Ordering, order_values
from graphprism.splitting.parts import parts_of

# (relative to the two values, relative to the largest value of the graph). In float64 far above the error of sums over
# many neighbours and far below differences that mean something; with fewer digits there is less room between the two.
_TOLERANCES = {
    torch.float64: (1e-9, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (2e-3, 5e-4),
    torch.bfloat16: (1.6e-2, 4e-3),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Values (N,) with what is needed to compare the two ends of an edge; ``floor`` (N,) is None for integers."""

    values: Tensor
    relative: float
    floor: Tensor | None

    def __call__(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the value rises and whether it falls from ``source`` to ``target``; neither is a tie."""
        a, b = self.values.index_select(0, source), self.values.index_select(0, target)
        if self.floor is None:
            return a < b, a > b
        margin = self.relative * torch.maximum(a.abs(), b.abs()) + self.floor.index_select(0, source)
        # An infinity is above all numbers (no margin) and ties with itself (the difference is NaN, which is not more).
        margin = margin.nan_to_num_(posinf=0.0)
        # The margin is not negative, so the value strictly rises along `up`: no cycle can consist of such edges.
        # Swapping the ends only changes the sign of the difference, so the reversed edge falls.
        difference = b - a
        return difference > margin, difference < -margin


def prepare(ordering: str | Tensor | Ordering, graph: GraphLike, tolerance: float | None) -> Comparison:
    r"""Evaluates an ordering for comparison.

    Integers compare exactly. Floats :math:`a, b` tie if :math:`|a - b| \le \tau \max(|a|, |b|) + \phi s`,
    where :math:`s` is the largest finite magnitude in their graph. :math:`\tau` is ``tolerance`` and :math:`\phi` is a
    thousandth of it, or both follow from the precision of the values.
    """
    values = order_values(ordering, graph).detach()
    if not values.is_floating_point():
        return Comparison(values, 0.0, None)
    if values.dtype not in _TOLERANCES:
        raise TypeError(f"`order` must have one of the types {list(_TOLERANCES)} or integers, got {values.dtype}")
    relative, floor = _TOLERANCES[values.dtype] if tolerance is None else (tolerance, 1e-3 * tolerance)
    values = values if values.dtype == torch.float64 else values.float()
    return Comparison(values, relative, floor * scale_of(values, graph))


def scale_of(values: Tensor, graph: GraphLike) -> Tensor:
    """Largest finite magnitude among ``values`` within the graph of each node, (N,)."""
    magnitude = values.detach().abs()
    return parts_of(graph).maximum(magnitude.masked_fill(magnitude.isinf(), 0.0))
