"""A graph, a batch or a dataset as one batch of graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphprism.analysis.certificate.independent_pairs import checked_batch
from graphprism.splitting import Graph
from graphprism.splitting.graph import edges_of, num_nodes_of


class OneBatch(NamedTuple):
    """The graph as it came, for splits to read, and what every figure needs, on the CPU."""

    graph: Any
    edge_index: Tensor  # (2, E) long
    num_nodes: int
    batch: Tensor  # (N,) long
    num_graphs: int


def one_batch(data: object) -> OneBatch:
    """Joins the graphs of a dataset to one batch, so that no figure loops over graphs."""
    if _is_graph(data):
        return _checked(data, None)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            "`data` must be a graph with `edge_index` and `num_nodes`, or a dataset of such graphs, "
            f"got {type(data).__name__}"
        )
    graphs = [graph for item in data for graph in _parts(item)]
    if not graphs:
        raise ValueError("`data` must hold at least one graph, got an empty dataset")
    return _checked(_joined(graphs), len(graphs))


def _is_graph(data: object) -> bool:
    from torch_geometric.data import Dataset

    # A dataset of torch_geometric answers to `edge_index` with the edges of all graphs, numbered as one.
    return not isinstance(data, Dataset | list | tuple) and hasattr(data, "edge_index")


def _parts(item: Any) -> list[Any]:
    from torch_geometric.data import Batch

    if not hasattr(item, "edge_index"):
        raise TypeError(
            f"`data` must hold graphs with `edge_index` and `num_nodes`, got {type(item).__name__} among them"
        )
    return list(item.to_data_list()) if isinstance(item, Batch) else [item]


def _joined(graphs: list[Any]) -> Any:
    from torch_geometric.data import Batch, Data

    if all(isinstance(graph, Data) for graph in graphs):
        return Batch.from_data_list(graphs)
    sizes = torch.tensor([int(graph.num_nodes) for graph in graphs])
    starts = (sizes.cumsum(0) - sizes).tolist()
    return Graph(
        edge_index=torch.cat([graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)], dim=1),
        num_nodes=int(sizes.sum()),
        x=_concatenated([getattr(graph, "x", None) for graph in graphs]),
        edge_attr=_concatenated([getattr(graph, "edge_attr", None) for graph in graphs]),
        batch=torch.repeat_interleave(torch.arange(len(graphs)), sizes),
    )


def _concatenated(tensors: list[Any]) -> Tensor | None:
    return None if any(tensor is None for tensor in tensors) else torch.cat(tensors)


def _checked(graph: Any, num_graphs: int | None) -> OneBatch:
    edge_index = edges_of(graph).cpu()
    num_nodes = num_nodes_of(graph)
    batch, num_graphs = checked_batch(getattr(graph, "batch", None), num_nodes, num_graphs)
    return OneBatch(graph, edge_index, num_nodes, batch, max(num_graphs, 1))
