"""The base class of splits, their product, and `only`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_type, check_whole
from graphprism.splitting.graph import GraphLike


@dataclass(frozen=True, repr=False)
class Split(ABC):
    """A function from a graph to the relation of each of its edges.

    A call gives a long tensor (E,) with entries in [0, R), or, for a soft split, a floating tensor (E, R) with a score
    for every relation. ``num_relations`` is R, None if it is not known before the call; ``names`` has R entries.
    ``left * right`` is the product: two edges share a relation if they share one in ``left`` and in ``right``.
    """

    num_relations: int | None
    names: tuple[str, ...] | None

    @abstractmethod
    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge of ``graph``, (E,) long or (E, R) floating."""

    @abstractmethod
    def __repr__(self) -> str: ...

    def between_types(self, graph: GraphLike) -> Tensor:
        """Relation of every edge of ``graph``, whose edges lead from nodes of one type to nodes of another.

        Values of nodes of different types are not compared: for an ordering these edges are ties. Targets are numbered
        after the sources.
        """
        return self(graph)

    def __mul__(self, other: Split) -> Split:
        """The product, with relations numbered ``left + R_left * right``."""
        if not isinstance(other, Split):
            return NotImplemented
        if self.num_relations is None:
            raise ValueError(
                "every factor of a product but the last must have a known `num_relations`, "
                f"got None from {self!r}: give it `num_relations`"
            )
        count = None if other.num_relations is None else self.num_relations * other.num_relations
        return Product(count, _product_names(self, other), self, other)

    def fitted(self, graph: GraphLike | Sequence[GraphLike]) -> Split:
        """The same split restricted to the relations that occur in ``graph``; their number is then known.

        Fit it once, to the graphs of a data set, as a list or a batch: relations are then numbered the same in every
        graph and fold, and none is empty. Called on a graph with any other relation, it raises. Its text is
        ``only(...)``.

        >>> import torch
        >>> from graphprism.splitting import Graph, by_attribute
        >>> bonds = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([3, 1]))
        >>> fitted = by_attribute("edge_attr").fitted(bonds)
        >>> fitted, fitted(bonds).tolist()
        (only(by_attribute('edge_attr', num_relations=4), [1, 3]), [1, 0])
        """
        graphs: list[GraphLike] = list(graph) if isinstance(graph, list | tuple) else [graph]  # type: ignore[list-item]
        if not graphs:
            raise ValueError("`graph` must be a graph or a list of at least one, got an empty list")
        known = max((self.counted(each) for each in graphs), key=lambda split: split.num_relations or 0)
        occurs = torch.unique(torch.cat([_occurring(known(each)) for each in graphs]))
        if known.num_relations is not None and occurs.numel() in (0, known.num_relations):
            return known
        return only(known, occurs.tolist() or [0])

    def counted(self, graph: GraphLike) -> Split:
        """The same split; if its number of relations is unknown, it is taken from ``graph``."""
        return self


def _occurring(found: Tensor) -> Tensor:
    """Numbers of the relations that occur in (E,) relations or (E, R) scores."""
    return (found != 0).any(0).nonzero().view(-1) if found.dim() == 2 else torch.unique(found)


@dataclass(frozen=True, repr=False)
class Product(Split):
    """The product of two splits; made by ``left * right``."""

    left: Split
    right: Split

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relations numbered ``left + R_left * right``, or products of scores in the same numbering."""
        return self.combined(self.left(graph), self.right(graph))

    def between_types(self, graph: GraphLike) -> Tensor:
        """The product of what its factors give."""
        return self.combined(self.left.between_types(graph), self.right.between_types(graph))

    def combined(self, left: Tensor, right: Tensor) -> Tensor:
        """Relations, or scores, of the product from those of its factors."""
        if left.dim() == right.dim() == 1:
            assert self.left.num_relations is not None  # checked by `__mul__`
            return torch.add(left, right, alpha=self.left.num_relations)
        left, right = _as_scores(left, self.left, right), _as_scores(right, self.right, left)
        scores = right.unsqueeze(2) * left.unsqueeze(1)  # (E, R_right, R_left)
        return scores.reshape(left.size(0), right.size(1) * left.size(1))

    def counted(self, graph: GraphLike) -> Split:
        """The product with the number of relations of its last factor taken from ``graph`` if unknown."""
        return self.left * self.right.counted(graph)

    def __repr__(self) -> str:
        right = f"({self.right!r})" if isinstance(self.right, Product) else repr(self.right)
        return f"{self.left!r} * {right}"


def only(split: Split, relations: Sequence[int]) -> Split:
    """Restricts a split to ``relations``, renumbered from 0; it raises on a graph with an edge of any other relation.

    Shapes: (E,) long, or (E, R) floating of a soft split

    >>> import torch
    >>> from graphprism.splitting import Graph, by_attribute
    >>> bonds = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([3, 1]))
    >>> only(by_attribute("edge_attr"), [1, 3])(bonds).tolist()
    [1, 0]
    """
    check_type("split", split, Split, "a Split")
    check_type("relations", relations, (list, tuple, range), "a list of relation numbers")
    for relation in relations:
        check_whole("relations", relation)
    kept = tuple(map(int, relations))
    if not kept or list(kept) != sorted({*kept}):
        raise ValueError(f"`relations` must be at least one number, strictly ascending, got {list(kept)}")
    if split.num_relations is not None and kept[-1] >= split.num_relations:
        raise ValueError(f"`relations` must be below {split.num_relations}, the relations of {split!r}, got {kept[-1]}")
    names = split.names or number_names(kept[-1] + 1)
    return Only(len(kept), None if names is None else tuple(names[relation] for relation in kept), split, kept)


@dataclass(frozen=True, repr=False)
class Only(Split):
    """Some relations of a split; made by `only`."""

    split: Split
    kept: tuple[int, ...]

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relations numbered by their place in ``kept``, or the columns of their scores."""
        return self._renumbered(self.split(graph))

    def between_types(self, graph: GraphLike) -> Tensor:
        """Ties must be in ``kept`` if the split has an ordering."""
        return self._renumbered(self.split.between_types(graph))

    def _renumbered(self, found: Tensor) -> Tensor:
        place, other = self.restricted(found)
        if bool(other.any()):
            # of a soft split an edge has several
            relations = (found[other] != 0).any(0).nonzero().view(-1) if found.dim() == 2 else found[other][:1]
            relation = next(each for each in relations.tolist() if each not in self.kept)
            self._refuse(relation, int(other.sum()))
        return place

    def restricted(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Relations, or scores, of the inner split as those of this one, and a mask (E,) of the edges with others."""
        kept = torch.tensor(self.kept, device=found.device)
        if found.dim() == 2:
            rest = found.index_fill(1, kept[kept < found.size(1)], 0.0) != 0
            return found.index_select(1, kept), rest.any(1)
        place = torch.searchsorted(kept, found).clamp_(max=kept.numel() - 1)
        return place, kept[place] != found

    def _refuse(self, relation: int, count: int) -> None:
        names = self.split.names or ()
        name = f" ({names[relation]})" if relation < len(names) else ""
        raise ValueError(
            f"the graph must have edges of the relations {list(self.kept)} of {self.split!r} alone, got {count} of "
            f"others, such as {relation}{name}: the split was fitted to graphs without them"
        )

    def fitted(self, graph: GraphLike | Sequence[GraphLike]) -> Split:
        """Itself: its relations are already fixed, even if ``graph`` lacks some of them."""
        return self

    def __repr__(self) -> str:
        return f"only({self.split!r}, {list(self.kept)})"


def _as_scores(relation: Tensor, split: Split, other: Tensor) -> Tensor:
    """Scores unchanged; relation numbers as one-hot rows in the dtype of the ``other`` factor."""
    if relation.dim() == 2:
        return relation
    if split.num_relations is None:
        raise ValueError(
            "every factor of a product with a soft split must have a known `num_relations`, "
            f"got None from {split!r}: give it `num_relations`"
        )
    return torch.nn.functional.one_hot(relation, split.num_relations).to(other.dtype)


# Most relations that get names: names of more would need more memory than the split.
_MOST_NAMES = 1 << 20


def number_names(num_relations: int) -> tuple[str, ...] | None:
    """Relation numbers as names; None if there are too many."""
    return tuple(map(str, range(num_relations))) if num_relations <= _MOST_NAMES else None


def _product_names(left: Split, right: Split) -> tuple[str, ...] | None:
    left_names, right_names = _names_or_numbers(left), _names_or_numbers(right)
    if left_names is None or right_names is None or len(left_names) * len(right_names) > _MOST_NAMES:
        return None
    return tuple(f"{name},{other}" for other in right_names for name in left_names)


def _names_or_numbers(split: Split) -> tuple[str, ...] | None:
    if split.names is not None or split.num_relations is None:
        return split.names
    return number_names(split.num_relations)


# Upper bound if the number of relations is unknown: the range of int64.
_LARGEST = 1 << 63


def checked_relations(name: str, values: Tensor, num_relations: int | None) -> Tensor:
    """Copies relation numbers (E,) to a new long tensor; checks that they are whole and in [0, ``num_relations``)."""
    values = values.byte() if values.dtype == torch.bool else values
    if values.is_floating_point():
        whole = values.isfinite() & (values == values.round())
        if not bool(whole.all()):
            raise ValueError(f"`{name}` must hold whole numbers, got {values[~whole][0].item()}")
    else:
        check_integer(name, values)
    check_range(name, values, num_relations)
    if num_relations is None and values.is_floating_point():
        check_range(name, values, _LARGEST)
    return values.to(torch.long, copy=True)


def checked_scores(name: str, values: Tensor) -> Tensor:
    """Scores (E, R), checked to be finite."""
    if not bool(values.isfinite().all()):
        raise ValueError(f"`{name}` must hold finite scores, got {values[~values.isfinite()][0].item()}")
    return values
