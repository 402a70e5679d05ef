"""What a split is, and the product of two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range
from graphprism.splitting.graph import GraphLike


@dataclass(frozen=True, repr=False)
class Split(ABC):
    """A function from a graph to the relation of each of its edges.

    A call gives a long tensor (E,) with entries in [0, R), or, for a soft split, a floating tensor (E, R) with a score
    for every relation. ``num_relations`` is R, None if it is not known before the call; ``names`` has R entries.
    ``left * right`` is the product: edges are in the same relation if they are in both.
    """

    num_relations: int | None
    names: tuple[str, ...] | None

    @abstractmethod
    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge of ``graph``, (E,) long or (E, R) floating."""

    @abstractmethod
    def __repr__(self) -> str: ...

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


@dataclass(frozen=True, repr=False)
class Product(Split):
    """The product of two splits; made by ``left * right``."""

    left: Split
    right: Split

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relations numbered ``left + R_left * right``, or products of scores in the same numbering."""
        left, right = self.left(graph), self.right(graph)
        if left.dim() == right.dim() == 1:
            assert self.left.num_relations is not None  # `__mul__` makes no other product
            return torch.add(left, right, alpha=self.left.num_relations)
        left, right = _as_scores(left, self.left, right), _as_scores(right, self.right, left)
        scores = right.unsqueeze(2) * left.unsqueeze(1)  # (E, R_right, R_left)
        return scores.reshape(left.size(0), right.size(1) * left.size(1))

    def __repr__(self) -> str:
        right = f"({self.right!r})" if isinstance(self.right, Product) else repr(self.right)
        return f"{self.left!r} * {right}"


def _as_scores(relation: Tensor, split: Split, other: Tensor) -> Tensor:
    """Scores as they are; relation numbers as one-hot rows in the type of the ``other`` factor."""
    if relation.dim() == 2:
        return relation
    if split.num_relations is None:
        raise ValueError(
            "every factor of a product with a soft split must have a known `num_relations`, "
            f"got None from {split!r}: give it `num_relations`"
        )
    return torch.nn.functional.one_hot(relation, split.num_relations).to(other.dtype)


# Most relations that get a name each: the names of more would need more memory than the split.
_MOST_NAMES = 1 << 20


def number_names(num_relations: int) -> tuple[str, ...] | None:
    """The numbers of relations as their names; None where there are too many to name."""
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


# Without a known number of relations: what a 64-bit integer can hold.
_LARGEST = 1 << 63


def checked_relations(name: str, values: Tensor, num_relations: int | None) -> Tensor:
    """Relation numbers (E,), checked to be whole and in [0, ``num_relations``), as a long tensor of their own."""
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
