"""Split by an attribute of the edges."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphprism._checks import check_positive, check_shape
from graphprism.splitting.graph import GraphLike, attribute_of, edges_of
from graphprism.splitting.splits.relations import checked_relations
from graphprism.splitting.splits.split import Split


def by_attribute(name: str, num_relations: int | None = None) -> Split:
    """Splits by the edge attribute ``name``, such as a bond type: its value is the number of the relation.

    The attribute holds whole numbers from 0 (of an integer or a floating type), as (E,) or (E, 1). With
    ``num_relations`` they are checked to be below it; without, nothing is inferred. Shapes: (E,) long

    >>> import torch
    >>> from graphprism.splitting import Graph
    >>> bonds = Graph(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([[2.0], [0.0]]))
    >>> by_attribute("edge_attr", num_relations=3)(bonds).tolist()
    [2, 0]
    """
    if num_relations is None:
        return ByAttribute(None, None, name)
    check_positive("num_relations", num_relations)
    return ByAttribute(num_relations, tuple(str(number) for number in range(num_relations)), name)


@dataclass(frozen=True, repr=False)
class ByAttribute(Split):
    """The split that `by_attribute` makes."""

    attribute: str

    def __call__(self, graph: GraphLike) -> Tensor:
        """Relation of every edge, (E,) long, in memory of its own."""
        values = attribute_of(graph, self.attribute, "one whole number per edge")
        if values.dim() == 2 and values.size(1) != 1:
            raise ValueError(
                f"`{self.attribute}` must have one column to be a relation number, got {list(values.shape)}: "
                "turn the columns into one number or into scores with `by_function`"
            )
        values = values.squeeze(1) if values.dim() == 2 else values
        check_shape(self.attribute, values, [edges_of(graph).size(1)])
        return checked_relations(self.attribute, values, self.num_relations)

    def __repr__(self) -> str:
        count = "" if self.num_relations is None else f", num_relations={self.num_relations}"
        return f"by_attribute({self.attribute!r}{count})"
