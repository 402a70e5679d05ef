"""What all transforms here ask of their input."""

from __future__ import annotations

from torch_geometric.data import Data

from graphprism._checks import check_integer, check_range, check_shape


def check_homogeneous(data: object) -> None:
    """Raises unless ``data`` is one kind of nodes, joined by edges that name existing nodes."""
    if not isinstance(data, Data):
        raise TypeError(f"`data` must be a torch_geometric Data or Batch, got {type(data).__name__}")
    if data.edge_index is None:
        raise ValueError("`data.edge_index` must be given, got None")
    check_shape("data.edge_index", data.edge_index, [2, "E"])
    check_integer("data.edge_index", data.edge_index)
    check_range("data.edge_index", data.edge_index, int(data.num_nodes or 0))
