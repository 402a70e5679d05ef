"""From a plain graph to a multi-relational one, once, before training."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_floating, check_integer, check_no_nan, check_range, check_shape, check_whole
from graphprism.splitting import GraphLike, Split, resolve_split


def check_homogeneous(data: object) -> None:
    """Raises unless ``data`` is one kind of nodes, joined by edges that name existing nodes."""
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a torch_geometric Data or Batch, got {type(data).__name__}")
    if data.edge_index is None:
        raise ValueError("`data.edge_index` must be given, got None")
    check_shape("data.edge_index", data.edge_index, [2, "E"])
    check_integer("data.edge_index", data.edge_index)
    if data.num_nodes is not None:
        check_whole("data.num_nodes", data.num_nodes)
    check_range("data.edge_index", data.edge_index, int(data.num_nodes or 0))
    weight = data.get("edge_weight")
    if weight is not None:
        check_shape("data.edge_weight", weight, [data.edge_index.size(1)])
        check_floating("data.edge_weight", weight)
        check_no_nan("data.edge_weight", weight)


class SplitEdges(BaseTransform):
    """Writes ``data.edge_type``: the relation of every edge, which PyG then batches like any edge attribute.

    Apply it to the full graph, before sampling: a degree is the degree in the whole graph.

    Args:
        split: name of an ordering (``"degree"``, ``"ppr"``, ...; see `graphprism.splitting.ORDERINGS`), several between
            commas (each decides the ties of those before it), a `Split`, a tensor, or any function of a graph that
            gives (E,) relations or (E, R) scores.

    Example:
        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> SplitEdges("degree")(path).edge_type.tolist()  # 0 up, 1 down, 2 tie
        [0, 1, 1, 0]
    """

    def __init__(self, split: str | Split | Tensor | Callable[[GraphLike], Tensor] = "degree") -> None:
        self.split = resolve_split(split)

    def forward(self, data: Data) -> Data:
        """``data`` with ``edge_type``."""
        check_homogeneous(data)
        data.edge_type = self.split(data)
        return data

    def __repr__(self) -> str:
        return f"SplitEdges({self.split!r})"
