"""Splits by node order (hard and soft), edge attribute, edge direction and any function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._checks import (
    check_number,
    check_optional_whole,
    check_positive,
    check_same_device,
    check_shape,
    check_share,
    check_tensor,
    check_type,
)
from graphprism.splitting.graph import GraphLike, attribute_of, edge_chunks, edges_of, num_nodes_of, parts_of
from graphprism.splitting.orderings import FixedOrder, Ordering, order_values, resolve_ordering
from graphprism.splitting.split import Split, checked_relations, checked_scores, number_names

# (relative to the two values, relative to the largest value of the graph). In float64 far above the rounding of sums
# over many neighbours and far below meaningful differences; lower precision leaves less room between the two.
_TOLERANCES = {
    torch.float64: (1e-9, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (2e-3, 5e-4),
    torch.bfloat16: (1.6e-2, 4e-3),
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Values (N,) and the tolerances to compare the two ends of an edge; ``floor`` (N,) is None for integers."""

    values: Tensor
    relative: float
    floor: Tensor | None

    def __call__(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Masks (rises, falls) of the value from ``source`` to ``target``; if both are False, it is a tie."""
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


UP, DOWN, TIE = 0, 1, 2
ORDER_NAMES = ("up", "down", "tie")
DIRECTION_NAMES = ("one-way", "mutual")


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
    if tolerance is not None:
        check_share("tolerance", tolerance, below_one=True)
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

    def between_types(self, graph: GraphLike) -> Tensor:
        """All ties, (E,) long."""
        return torch.full_like(edges_of(graph)[0], TIE)

    def __repr__(self) -> str:
        arguments = [describe(ordering) for ordering in self.orderings]
        if self.tolerance is not None:
            arguments.append(f"tolerance={self.tolerance}")
        return f"by_order({', '.join(arguments)})"


def describe(function: object) -> str:
    """An ordering or a function as text for the repr of a split."""
    return getattr(function, "__name__", None) or repr(function)


def checked_ordering(ordering: str | Tensor | Ordering) -> str | Ordering:
    """The ordering, validated; a name stays a name, so that splits have a repr and can be compared."""
    resolved = resolve_ordering(ordering)
    return ordering if isinstance(ordering, str) else resolved


def by_soft_order(ordering: str | Tensor | Ordering, temperature: float = 1.0) -> Split:
    r"""Soft version of `by_order`: scores of up, down and tie from the relative difference of a node value :math:`r`.

    .. math:: \delta = \frac{r_{dst} - r_{src}}{s}, \quad u = \tanh\frac{\max(\delta, 0)}{T}, \quad
        d = \tanh\frac{\max(-\delta, 0)}{T}, \quad (u,\; d,\; 1 - u - d)

    where :math:`s` is the largest :math:`|r|` in the graph and :math:`T` is ``temperature``. Scores are not negative
    and sum to one. As :math:`T \to 0` they converge to ``by_order(ordering)``, and its ties are ties for every
    :math:`T`. Gradients flow to a differentiable ordering. Shapes: (E, 3) of the default dtype
    """
    if not (math.isfinite(check_number("temperature", temperature, "positive and finite")) and temperature > 0):
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

    def between_types(self, graph: GraphLike) -> Tensor:
        """All ties, (E, 3)."""
        source = edges_of(graph)[0]
        return torch.eye(3, dtype=torch.get_default_dtype(), device=source.device)[torch.full_like(source, TIE)]

    def __repr__(self) -> str:
        return f"by_soft_order({describe(self.ordering)}, temperature={self.temperature})"


def by_attribute(name: str, num_relations: int | None = None, column: int | None = None) -> Split:
    """Splits by the edge attribute ``name``, such as a bond type: its value is the number of the relation.

    The attribute holds whole numbers from 0 (integer or floating dtype), with shape (E,), (E, 1), or (E, D) together
    with ``column``. With ``num_relations`` they are checked to be below it; without, the number stays unknown.
    Shapes: (E,) long

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> bonds = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([[2.0], [0.0]]))
    >>> by_attribute("edge_attr", num_relations=3)(bonds).tolist()
    [2, 0]
    """
    check_type("name", name, str, "the name of an edge attribute")
    check_optional_whole("column", column, least=0)
    if num_relations is None:
        return ByAttribute(None, None, name, column)
    check_positive("num_relations", num_relations)
    return ByAttribute(num_relations, number_names(num_relations), name, column)


@dataclass(frozen=True, repr=False)
class ByAttribute(Split):
    """The split that `by_attribute` makes."""

    attribute: str
    column: int | None = None

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long, always a copy."""
        values = attribute_of(graph, self.attribute, "one whole number per edge")
        if self.column is not None:
            check_shape(self.attribute, values, [edges_of(graph).size(1), "D"])
            if self.column >= values.size(1):
                raise ValueError(
                    f"`column` must be below {values.size(1)}, the columns of `{self.attribute}`, got {self.column}"
                )
            values = values[:, self.column]
        if values.dim() == 2 and values.size(1) != 1:
            raise ValueError(
                f"`{self.attribute}` must have one column to be a relation number, got {list(values.shape)}: "
                "name a `column`, or turn the columns into one number or into scores with `by_function`"
            )
        values = values.squeeze(1) if values.dim() == 2 else values
        check_shape(self.attribute, values, [edges_of(graph).size(1)])
        return checked_relations(self.attribute, values, self.num_relations)

    def counted(self, graph: GraphLike) -> Split:
        """The same split; if its number of relations is unknown, it becomes the largest value in ``graph`` plus one."""
        if self.num_relations is not None:
            return self
        values = self(graph)
        return by_attribute(self.attribute, int(values.max()) + 1 if values.numel() else 1, self.column)

    def __repr__(self) -> str:
        count = "" if self.num_relations is None else f", num_relations={self.num_relations}"
        column = "" if self.column is None else f", column={self.column}"
        return f"by_attribute({self.attribute!r}{count}{column})"


def by_direction() -> Split:
    """Splits one-way edges (0) from mutual ones (1), whose reverse edge exists; a loop is mutual.

    Shapes: (E,) long

    >>> from graphprism.splitting import Graph
    >>> by_direction()(Graph(torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=3)).tolist()
    [1, 1, 0]
    """
    return ByDirection(2, DIRECTION_NAMES)


@dataclass(frozen=True, repr=False)
class ByDirection(Split):
    """The split that `by_direction` makes."""

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long."""
        edge_index, num_nodes = edges_of(graph), num_nodes_of(graph)
        forward = (edge_index[0] * num_nodes + edge_index[1]).sort().values
        found = []
        for source, target in edge_chunks(edge_index):
            back = target * num_nodes + source
            place = torch.searchsorted(forward, back).clamp_(max=max(forward.numel() - 1, 0))
            found.append(forward[place] == back)
        return torch.cat(found).long()

    def __repr__(self) -> str:
        return "by_direction()"


def by_function(
    f: Callable[[GraphLike], Tensor], num_relations: int | None = None, names: Sequence[str] | None = None
) -> Split:
    """Splits by ``f(graph)``: relation numbers (E,), or floating scores (E, R) for a soft split.

    ``names`` has one entry per relation; its length is the default of ``num_relations``.
    Shapes: (E,) long or (E, R) floating

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> loops = by_function(lambda graph: graph.edge_index[0] == graph.edge_index[1], names=["edge", "loop"])
    >>> loops(Graph(torch.tensor([[0, 1], [1, 1]]), num_nodes=2)).tolist()
    [0, 1]
    """
    if not callable(f):
        raise TypeError(f"`f` must be a function of a graph, got {type(f).__name__}")
    if names is not None:
        check_type("names", names, (list, tuple), "a list of names, one for each relation")
        num_relations = len(names) if num_relations is None else num_relations
        if len(names) != num_relations:
            raise ValueError(f"`names` must have one entry for each of {num_relations} relations, got {len(names)}")
    if num_relations is not None:
        check_positive("num_relations", num_relations)
    return ByFunction(num_relations, None if names is None else tuple(names), f)


@dataclass(frozen=True, repr=False)
class ByFunction(Split):
    """The split that `by_function` makes."""

    f: Callable[[GraphLike], Tensor]

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation numbers (E,) or scores (E, R), checked."""
        edge_index, values = edges_of(graph), self.f(graph)
        name = f"{describe(self.f)}(graph)"
        check_tensor(name, values)
        check_same_device(name, values, "edge_index", edge_index)
        if values.dim() == 2 and values.is_floating_point():
            check_shape(name, values, [edge_index.size(1), self.num_relations or "R"])
            return checked_scores(name, values)
        num_edges = edge_index.size(1)
        if values.shape == (num_nodes_of(graph),) != (num_edges,):
            called = "values" if isinstance(self.f, FixedRelations) else "f"
            raise ValueError(
                f"`{name}` must have shape [{num_edges}], got {list(values.shape)}: one value per node is an ordering, "
                f"`by_order({called})`"
            )
        check_shape(name, values, [num_edges])
        return checked_relations(name, values, self.num_relations)

    def __repr__(self) -> str:
        count = "" if self.num_relations is None else f", num_relations={self.num_relations}"
        names = "" if self.names is None else f", names={self.names}"
        return f"by_function({describe(self.f)}{count}{names})"


@dataclass(frozen=True, eq=False)
class FixedRelations:
    """A function that gives the same relations or scores for every graph."""

    values: Tensor

    def __call__(self, graph: GraphLike) -> Tensor:
        """The relations, whatever the graph."""
        return self.values

    def __repr__(self) -> str:
        return f"<relations of {self.values.size(0)} edges>"
