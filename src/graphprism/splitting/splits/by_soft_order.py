"""Soft split by how much a node value changes along an edge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.splitting.graph import GraphLike, edge_chunks, edges_of
from graphprism.splitting.orderings import Ordering, order_values
from graphprism.splitting.orderings.resolve import FixedOrder
from graphprism.splitting.splits.by_order import ORDER_NAMES, checked_ordering, describe
from graphprism.splitting.splits.comparison import prepare, scale_of
from graphprism.splitting.splits.split import Split


def by_soft_order(ordering: str | Tensor | Ordering, temperature: float = 1.0) -> Split:
    r"""Scores of up, down and tie for every edge, from the size of the change of a node value :math:`r`.

    .. math:: \delta = \frac{r_{dst} - r_{src}}{s}, \quad u = \tanh\frac{\max(\delta, 0)}{T}, \quad
        d = \tanh\frac{\max(-\delta, 0)}{T}, \quad (u,\; d,\; 1 - u - d)

    where :math:`s` is the largest :math:`|r|` in the graph and :math:`T` is ``temperature``. Scores are not negative
    and sum to one; as :math:`T \to 0` they become ``by_order(ordering)``, whose ties are ties here for every
    :math:`T`. Gradients reach an ordering that has them. Shapes: (E, 3) of the default floating type
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"`temperature` must be positive and finite, got {temperature}")
    return BySoftOrder(3, ORDER_NAMES, checked_ordering(ordering), temperature)


@dataclass(frozen=True, repr=False)
class BySoftOrder(Split):
    """The split that `by_soft_order` makes."""

    ordering: str | Ordering
    temperature: float

    def __call__(self, graph: GraphLike) -> Tensor:
        """Scores of every edge, (E, 3)."""
        values = order_values(self.ordering, graph)
        if values.is_floating_point() and bool(values.isinf().any()):
            count = int(values.isinf().sum())
            raise ValueError(f"`order` must be finite for a soft split, got {count} infinite values")
        compare = prepare(FixedOrder(values), graph, None)
        height = values.double()
        scale = scale_of(height, graph)
        height = height / torch.where(scale > 0, scale, 1.0)
        chunks = []
        for source, target in edge_chunks(edges_of(graph)):
            rises, falls = compare(source, target)
            delta = (height.index_select(0, target) - height.index_select(0, source)) / self.temperature
            up, down = torch.where(rises, delta, 0.0).tanh(), torch.where(falls, -delta, 0.0).tanh()
            chunks.append(torch.stack([up, down, 1 - up - down], dim=1).to(torch.get_default_dtype()))
        return torch.cat(chunks)

    def __repr__(self) -> str:
        return f"by_soft_order({describe(self.ordering)}, temperature={self.temperature})"
