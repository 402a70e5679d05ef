"""Split by the direction in which a node value changes along an edge."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphprism.splitting.graph import GraphLike, edge_chunks, edges_of
from graphprism.splitting.orderings import Ordering, resolve_ordering
from graphprism.splitting.splits.comparison import prepare
from graphprism.splitting.splits.split import Split

UP, DOWN, TIE = 0, 1, 2
ORDER_NAMES = ("up", "down", "tie")


def by_order(*orderings: str | Tensor | Ordering, tolerance: float | None = None) -> Split:
    r"""Splits by a node value :math:`r`: 0 up (:math:`r_{src} < r_{dst}`), 1 down, 2 tie.

    ``orderings`` are names of ``ORDERINGS``, tensors (N,) or functions of a graph. Ties of the first are refined by the
    second, and so on; there are still three relations. Integers compare exactly. Floating-point values :math:`a, b` tie
    if :math:`|a - b| \le \tau \max(|a|, |b|) + \phi s`, where :math:`s` is the largest finite magnitude in the graph,
    :math:`\tau` is ``tolerance`` and :math:`\phi = \tau / 1000`; by default :math:`(\tau, \phi)` is (1e-9, 1e-12) in
    float64 and (1e-5, 1e-6) in float32, and 0 compares exactly. Infinities compare naturally.

    With one ordering, or if all but the last hold integers, neither `up` nor `down` contains a cycle. Shapes: (E,) long

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> by_order("degree")(path).tolist()
    [0, 1, 1, 0]
    """
    if not orderings:
        raise ValueError("`by_order` must be given at least one ordering, got none")
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ValueError(f"`tolerance` must be in [0, 1), got {tolerance}")
    return ByOrder(3, ORDER_NAMES, tuple(checked_ordering(ordering) for ordering in orderings), tolerance)


@dataclass(frozen=True, repr=False)
class ByOrder(Split):
    """The split that `by_order` makes."""

    orderings: tuple[str | Ordering, ...]
    tolerance: float | None

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long."""
        edge_index = edges_of(graph)
        comparisons = [prepare(ordering, graph, self.tolerance) for ordering in self.orderings]
        relation = edge_index.new_full((edge_index.size(1),), TIE)
        done = 0
        for source, target in edge_chunks(edge_index):
            part = relation[done : done + source.numel()]
            done += source.numel()
            for compare in comparisons:
                rises, falls = compare(source, target)
                undecided = part == TIE
                part.masked_fill_(rises & undecided, UP).masked_fill_(falls & undecided, DOWN)
        return relation

    def __repr__(self) -> str:
        arguments = [describe(ordering) for ordering in self.orderings]
        if self.tolerance is not None:
            arguments.append(f"tolerance={self.tolerance}")
        return f"by_order({', '.join(arguments)})"


def describe(function: object) -> str:
    """How a name or a function reads in the repr of a split."""
    return getattr(function, "__name__", None) or repr(function)


def checked_ordering(ordering: str | Tensor | Ordering) -> str | Ordering:
    """The ordering, checked to be one; a name stays a name, for the repr and for comparing splits."""
    resolved = resolve_ordering(ordering)
    return ordering if isinstance(ordering, str) else resolved
