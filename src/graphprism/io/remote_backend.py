"""PyG's remote backend for files of `graphprism split`: a graph store with an edge type per relation."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from graphprism.streaming import TypedEdges, open_split

NODE = "node"


class RelationStore(GraphStore):
    """Relations of a split as edge types ``("node", NAME, "node")``, read lazily from the file.

    Layouts other than COO are available once they were put, as ``csc(store=True)`` does.

    Args:
        edges: The split.
    """

    def __init__(self, edges: TypedEdges) -> None:
        super().__init__()
        if edges.graph is not None:
            raise ValueError(f"{edges.path}: a graph store must hold one graph, got several (column {edges.graph})")
        if edges.sparse_ids:
            raise ValueError(f"{edges.path}: node ids of a graph store must be numbers from 0, got sparse ids")
        names = edges.names or tuple(map(str, range(edges.num_relations)))
        self.edges = edges
        self.edge_types = [(NODE, name, NODE) for name in names]
        self._put: dict[Any, tuple[Tensor, Tensor]] = {}

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """An attribute for every relation in COO, and for every layout that was put."""
        size = (self.edges.num_nodes, self.edges.num_nodes)
        there = [EdgeAttr(edge_type, "coo", size=size) for edge_type in self.edge_types]
        return there + [EdgeAttr(edge_type, layout, size=size) for edge_type, layout in self._put]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        edge_type = tuple(edge_attr.edge_type)
        put = self._put.get((edge_type, edge_attr.layout))
        if put is not None or edge_attr.layout != EdgeLayout.COO or edge_type not in self.edge_types:
            return put
        source, target = self.edges.edge_index_of(self.edge_types.index(edge_type))
        return source, target

    def _put_edge_index(self, edge_index: tuple[Tensor, Tensor], edge_attr: EdgeAttr) -> bool:
        if edge_attr.layout == EdgeLayout.COO:  # already in the file
            return False
        self._put[tuple(edge_attr.edge_type), edge_attr.layout] = edge_index
        return True

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        return self._put.pop((tuple(edge_attr.edge_type), edge_attr.layout), None) is not None

    def __repr__(self) -> str:
        return f"RelationStore({str(self.edges.path)!r}, num_relations={self.edges.num_relations})"


class ArrayFeatures(FeatureStore):
    """Node features in arrays, which may be memory-mapped: only the requested rows are read."""

    def __init__(self) -> None:
        super().__init__()
        self._arrays: dict[tuple[str, str], Any] = {}

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """An attribute for every array."""
        return [TensorAttr(group, name) for group, name in self._arrays]

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        if attr.index is not None and not (isinstance(attr.index, slice) and attr.index == slice(None)):
            return False  # arrays are read-only
        self._arrays[attr.group_name, attr.attr_name] = tensor
        return True

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        array = self._arrays.get((attr.group_name, attr.attr_name))
        if array is None:
            return None
        index = slice(None) if attr.index is None else attr.index
        if isinstance(array, Tensor):
            return array[index]
        rows = array[index.numpy() if isinstance(index, Tensor) else index]
        return torch.from_numpy(np.array(rows))  # a copy: torch warns about read-only arrays

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        array = self._arrays.get((attr.group_name, attr.attr_name))
        return None if array is None else tuple(array.shape)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self._arrays.pop((attr.group_name, attr.attr_name), None) is not None


def remote_backend(
    path: str | os.PathLike[str], **features: Tensor | np.ndarray[Any, Any] | str | os.PathLike[str]
) -> tuple[ArrayFeatures, RelationStore]:
    """The pair (feature store, graph store) for PyG's loaders, for a file that `graphprism split` wrote.

    Relations are edge types of one node type, ``"node"``; a sampler must return a ``HeteroSamplerOutput``.

    Args:
        path: The file.
        **features: Arrays with a row per node, such as ``x``, or paths of ``.npy`` files, which are memory-mapped.

    Raises:
        EdgeFileError: The file is truncated, damaged or of another format.
        ValueError: An array has another number of rows than there are nodes.
    """
    edges, store = open_split(path), ArrayFeatures()
    for name, given in features.items():
        array = given
        if isinstance(given, str | os.PathLike):
            array = np.load(given, mmap_mode="r", allow_pickle=False)
        assert isinstance(array, Tensor | np.ndarray)  # paths were replaced by arrays above
        if array.shape[0] != edges.num_nodes:
            raise ValueError(f"`{name}` must have a row for each of {edges.num_nodes} nodes, got {array.shape[0]}")
        store.put_tensor(array, group_name=NODE, attr_name=name, index=None)
    return store, RelationStore(edges)
