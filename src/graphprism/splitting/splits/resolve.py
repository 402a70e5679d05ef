"""From a name, a tensor or a function to a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from graphprism.splitting.graph import GraphLike
from graphprism.splitting.splits.by_function import by_function
from graphprism.splitting.splits.by_order import by_order
from graphprism.splitting.splits.split import Split


@dataclass(frozen=True, eq=False)
class FixedRelations:
    """A function that gives the same relations or scores for every graph."""

    values: Tensor

    def __call__(self, graph: GraphLike) -> Tensor:
        """The relations, whatever the graph."""
        return self.values

    def __repr__(self) -> str:
        return f"<relations of {self.values.size(0)} edges>"


def resolve_split(split: str | Split | Tensor | Callable[[GraphLike], Tensor]) -> Split:
    """The split for names of ``ORDERINGS`` (by that order), a tensor (E,) or (E, R), or any function of a graph.

    Names between commas are orders of which each decides the ties of those before it.

    >>> resolve_split("degree")
    by_order('degree')
    >>> resolve_split("degree, ppr")
    by_order('degree', 'ppr')
    """
    if isinstance(split, Split):
        return split
    if isinstance(split, str):
        return by_order(*(name.strip() for name in split.split(",")))
    if isinstance(split, Tensor):
        if split.dim() not in (1, 2):
            raise ValueError(f"`split` must have shape [E] or [E, R] as a tensor, got {list(split.shape)}")
        return by_function(FixedRelations(split), num_relations=split.size(1) if split.dim() == 2 else None)
    if not callable(split):
        raise TypeError(f"`split` must be a name, a Split, a tensor or a function, got {type(split).__name__}")
    return by_function(split)
