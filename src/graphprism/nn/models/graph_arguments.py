"""The graph arguments of a network, checked and converted to what its convolutions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_integer, check_same_device, check_shape, guard_ranges
from graphprism.nn.conv.operands import to_adj
from graphprism.nn.models.convolutions import Convolution
from graphprism.ops import RelationalAdj


def _check_takes_adj(layer: torch.nn.Module) -> None:
    """Raises for a layer with PyG's arguments, as an error in its first call would not say how to get these."""
    types = signature(layer.forward).parameters.get("edge_type")
    if types is not None and (types.default is types.empty or type(layer).__module__.startswith("torch_geometric.")):
        raise ValueError(
            f"`conv` must make layers that take a prepared graph, forward(x, adj), got {type(layer).__name__}, which "
            "takes `edge_type`; a `Convolution` with edge_norm=None calls it with (x, edge_index, edge_type)"
        )


@dataclass(frozen=True)
class GraphArguments:
    """Converts ``edge_index``, ``edge_type`` and ``edge_weight`` of `GNN` to the graph that its convolutions take.

    It holds properties of the convolutions, not the factories of their table: models can be pickled.

    Attributes:
        conv: name of the convolutions, for errors.
        takes_graph: False for a network on single nodes.
        takes_prepared: whether the convolutions take a `RelationalAdj`; else tensors.
        takes_weight: whether convolutions that take tensors take ``edge_weight``.
        relational: whether they take relations.
        relations: number of relations of every split.
        has_splits: whether layers have different splits.
    """

    conv: str
    takes_graph: bool
    takes_prepared: bool
    takes_weight: bool
    relational: bool
    relations: tuple[int, ...]
    has_splits: bool

    @classmethod
    def of(cls, known: object, first: torch.nn.Module, num_relations: int | Sequence[int]) -> GraphArguments:
        """The properties of a `Convolution`, or of a custom layer: ``first`` is the first layer of the network."""
        several = not isinstance(num_relations, int)
        if isinstance(known, Convolution):
            counts = [num_relations] if isinstance(num_relations, int) else num_relations
            relations = tuple(known.relations(count) for count in counts)
            takes = known.takes_graph, known.edge_norm is not None, known.takes_edge_weight
            if known.takes_graph and known.edge_norm is not None:
                _check_takes_adj(first)
            return cls(known.name, *takes, known.relational, relations, known.relational and several)
        # like our layers, a custom layer with relations takes a prepared graph
        own: Any = getattr(first, "num_relations", None)
        relational, relations = own is not None, (1 if own is None else int(own),)
        if relational:
            _check_takes_adj(first)
        return cls(type(first).__name__, True, relational, False, relational, relations, relational and several)

    def __call__(self, h: Tensor, edge_index: Any, edge_type: Any, edge_weight: Tensor | None) -> Any:
        """One `RelationalAdj` for all layers, or a tuple of tensors; a list of either if layers have different splits.

        Args:
            h: states of the nodes.
            edge_index: as in `GNN.forward`.
            edge_type: likewise.
            edge_weight: likewise.
        """
        if not self.has_splits:
            return self._graph(h, edge_index, edge_type, edge_weight, self.relations[0])
        splits = edge_index if isinstance(edge_index, list | tuple) else edge_type
        if not isinstance(splits, list | tuple) or len(splits) != len(self.relations):
            came = f"{len(splits)}" if isinstance(splits, list | tuple) else type(splits).__name__
            raise ValueError(
                f"`edge_type` must be a list of {len(self.relations)}, the splits of the layers, or `edge_index` one "
                f"of as many RelationalAdj, got {came}"
            )
        pairs = [(each, None) for each in splits] if splits is edge_index else [(edge_index, each) for each in splits]
        return [
            self._graph(h, edges, types, edge_weight, count)
            for (edges, types), count in zip(pairs, self.relations, strict=True)
        ]

    def _graph(
        self, h: Tensor, edge_index: Any, edge_type: Tensor | None, edge_weight: Tensor | None, num_relations: int
    ) -> Any:
        """The graph argument of the convolutions: one `RelationalAdj` for all of them, or a tuple of tensors."""
        if not self.takes_graph:
            return ()
        if edge_index is None:
            raise ValueError(f"`edge_index` must be given with {self.conv}, got None")
        if not self.takes_prepared:
            return self._tensors(h, edge_index, edge_type, edge_weight, num_relations)
        if num_relations == 1:  # a plain convolution ignores the split of a graph
            edge_type = None
            if getattr(edge_index, "num_relations", 1) > 1:
                edge_index, edge_weight = edge_index.edge_index, edge_index.edge_weight
        return to_adj(h, edge_index, edge_type, edge_weight, num_relations)

    def _tensors(
        self, h: Tensor, edge_index: Any, edge_type: Tensor | None, edge_weight: Tensor | None, num_relations: int
    ) -> tuple[Any, ...]:
        """Arguments of a layer that takes no prepared graph: ``edge_index``, and ``edge_type`` or ``edge_weight``."""
        if isinstance(edge_index, RelationalAdj):
            edge_type, edge_weight = edge_index.edge_type, edge_index.edge_weight
            edge_index = edge_index.edge_index
        if isinstance(edge_index, Tensor) and edge_index.dtype == torch.int32:
            edge_index = edge_index.long()  # with int32 torch computes wrong gradients of PyG's gathers
        check_shape("edge_index", edge_index, [2, "E"])
        check_integer("edge_index", edge_index)
        check_same_device("x", h, "edge_index", edge_index)
        guard_ranges({"edge_index": (edge_index, h.size(-2))})
        if edge_weight is not None and self.takes_weight:
            check_shape("edge_weight", edge_weight, [edge_index.size(1)])
            check_floating("edge_weight", edge_weight)
            return edge_index, edge_weight.to(h.dtype)
        if edge_weight is not None:
            raise ValueError(
                f"`edge_weight` must be None with {self.conv}, which takes edges without weights, got a tensor"
            )
        if not self.relational:
            return (edge_index,)
        if edge_type is None:
            raise ValueError(f"`edge_type` must be given with {self.conv}, got None")
        check_shape("edge_type", edge_type, [edge_index.size(1)])
        check_integer("edge_type", edge_type)
        guard_ranges({"edge_type": (edge_type, num_relations)})
        return edge_index, edge_type.long()
