"""Split by any function of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from graphprism._checks import check_positive, check_same_device, check_shape, check_tensor
from graphprism.splitting.graph import GraphLike, edges_of
from graphprism.splitting.splits.by_order import describe
from graphprism.splitting.splits.relations import checked_relations, checked_scores
from graphprism.splitting.splits.split import Split


def by_function(
    f: Callable[[GraphLike], Tensor], num_relations: int | None = None, names: Sequence[str] | None = None
) -> Split:
    """Splits by ``f(graph)``: relation numbers (E,), or floating scores (E, R) for a soft split.

    ``names`` has one entry per relation, and gives their number where ``num_relations`` does not.
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
        check_shape(name, values, [edge_index.size(1)])
        return checked_relations(name, values, self.num_relations)

    def __repr__(self) -> str:
        count = "" if self.num_relations is None else f", num_relations={self.num_relations}"
        names = "" if self.names is None else f", names={self.names}"
        return f"by_function({describe(self.f)}{count}{names})"
