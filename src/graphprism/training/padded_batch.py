"""Batches of different sizes, padded to a graph of fixed sizes for captured steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism._checks import check_dense, check_type
from graphprism.nn.conv.operands import batch_norm
from graphprism.ops import RelationalAdj

# Sizes of buffers are multiples of this: matrix products on a GPU work on tiles of rows.
_MULTIPLE = 32


class PaddedBatch:
    """Buffers for one batch, and the padded graph of fixed sizes that a step computes from them.

    Padding consists of extra graphs: padding nodes have the features of the first node, and padding edges are loops at
    padding nodes, so that no real node receives anything from them.

    Args:
        like: The first batch: buffers take its keys, types and shapes.
        room: Size of the buffers as a multiple of this batch.
        device: Where the buffers are.
        num_relations: R.
        before: Buffers that were too small; the new ones are at least as large in every size.
        sizes: Nodes, edges and graphs of a batch that must fit besides.

    Attributes:
        num_nodes, num_edges, num_graphs: Sizes with padding, all different.
    """

    def __init__(
        self,
        like: Data,
        room: float,
        device: torch.device,
        num_relations: int,
        before: PaddedBatch | None = None,
        sizes: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self.num_relations = num_relations
        self._levels: dict[str, str] = _levels(like) if before is None else before._levels
        nodes, edges, graphs = _sizes(like)
        self.num_graphs = max(graphs, sizes[2]) + 1
        # every padding graph has a node
        self.num_nodes = _rounded(max(nodes * room, sizes[0]) + self.num_graphs)
        self.num_edges = _rounded(max(edges * room, sizes[1]) + 1)
        if before is not None:
            self.num_graphs = max(self.num_graphs, before.num_graphs)
            self.num_nodes = max(self.num_nodes, before.num_nodes + self.num_graphs - before.num_graphs)
            self.num_edges = max(self.num_edges, before.num_edges)
        self._counts = torch.zeros(3, dtype=torch.long, device=device)
        self._buffers: dict[str, Tensor] = {}
        while self.num_edges in (self.num_nodes, self.num_graphs):  # the number of rows tells the level of a tensor
            self.num_edges += _MULTIPLE
        while self.num_nodes in (self.num_edges, self.num_graphs):
            self.num_nodes += _MULTIPLE
        rows = self._rows()
        for key, level in self._levels.items():
            value = like[key]
            size = (2, self.num_edges) if key == "edge_index" else (rows[level], *value.shape[1:])
            self._buffers[key] = torch.zeros(size, dtype=value.dtype, device=device)
        if "batch" not in self._buffers:
            self._buffers["batch"] = torch.zeros(self.num_nodes, dtype=torch.long, device=device)

    def fits(self, batch: Data) -> bool:
        """Whether a batch leaves room for padding, a node for each padding graph at least."""
        nodes, edges, graphs = _sizes(batch)
        spare = self.num_graphs - graphs
        return spare > 0 and nodes + spare <= self.num_nodes and edges <= self.num_edges

    def fill(self, batch: Data) -> None:
        """Copies a batch that fits into the buffers; no host-device sync.

        Raises:
            ValueError: A tensor is missing, or not shaped as in the first batch.
        """
        sizes = _sizes(batch)
        rows = dict(zip(("node", "edge", "graph"), sizes, strict=True))
        for key, level in self._levels.items():
            value, buffer = getattr(batch, key, None), self._buffers[key]
            size = (2, rows["edge"]) if key == "edge_index" else (rows[level], *buffer.shape[1:])
            if not isinstance(value, Tensor) or value.shape != size or value.dtype != buffer.dtype:
                came = f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
                raise ValueError(
                    f"`batch.{key}` must be {buffer.dtype} of shape {list(size)}, as in the first batch, got {came}"
                )
            target = buffer[:, : size[1]] if key == "edge_index" else buffer[: size[0]]
            target.copy_(value, non_blocking=True)
        self._counts.copy_(torch.tensor(sizes), non_blocking=True)

    def graph(self, other: bool = False) -> Data:
        """The padded graph: the tensors of the batch, ``ptr``, masks of what is real, and ``adj``.

        Args:
            other: Whether padding gets different features and edges, which must not change the loss.
        """
        nodes, edges, graphs = self._counts
        place = {level: torch.arange(size, device=nodes.device) for level, size in self._rows().items()}
        mask = {"node": place["node"] < nodes, "edge": place["edge"] < edges, "graph": place["graph"] < graphs}
        data = Data(node_mask=mask["node"], edge_mask=mask["edge"], graph_mask=mask["graph"])
        for key, buffer in self._buffers.items():
            level = self._levels.get(key, "node")
            if key == "edge_index":
                spread = place["edge"] % (self.num_nodes - nodes)  # loops at many nodes: no node is a hub
                fill = (nodes + (0 * spread if other else spread)).to(buffer.dtype)
            elif key == "batch":
                # in the order of the graphs, so that `ptr` holds for padding as well
                fill = graphs + (place["node"] - nodes) * (self.num_graphs - graphs) // (self.num_nodes - nodes)
            elif key == "edge_type":
                fill = torch.full_like(buffer[:1], self.num_relations - 1 if other and buffer.dim() == 1 else 0)
            elif key == "edge_weight":  # not negative, which attention refuses
                fill = 3 + buffer[:1].abs() if other else buffer[:1]
            else:
                fill = _another(buffer, self._counts, level) if other and level != "graph" else buffer[:1]
            is_real = mask[level] if key == "edge_index" else mask[level].view(-1, *[1] * (buffer.dim() - 1))
            data[key] = torch.where(is_real, buffer, fill)
        data.num_nodes, data.num_graphs = self.num_nodes, self.num_graphs
        data.ptr = torch.searchsorted(data.batch, torch.arange(self.num_graphs + 1, device=nodes.device))
        data.adj = RelationalAdj.in_forward(
            data.edge_index,
            getattr(data, "edge_type", None),
            getattr(data, "edge_weight", None),
            self.num_relations,
            (self.num_nodes, self.num_nodes),
        )
        return data

    def _rows(self) -> dict[str, int]:
        return {"node": self.num_nodes, "edge": self.num_edges, "graph": self.num_graphs}


@contextmanager
def masked_batch_norms(model: torch.nn.Module, data: Data) -> Iterator[None]:
    """Excludes padding from the statistics of batch norms."""
    masks = {mask.size(0): mask for mask in (data.node_mask, data.edge_mask, data.graph_mask)}
    norms = [each for each in model.modules() if isinstance(each, torch.nn.BatchNorm1d) and each.training]
    for norm in norms:
        norm.forward = partial(_masked_forward, norm, masks)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _masked_forward(norm: torch.nn.BatchNorm1d, masks: dict[int, Tensor], x: Tensor) -> Tensor:
    if x.dim() == 2 and x.size(0) in masks:
        return batch_norm(norm, x, masks[x.size(0)])
    return type(norm).forward(norm, x)


def _levels(batch: Data) -> dict[str, str]:
    """The level of each tensor of a batch, node, edge or graph, by its number of rows; others are left out."""
    nodes, edges, graphs = _sizes(batch)
    if nodes == graphs:
        raise ValueError(
            f"the first batch must have more nodes than graphs, to tell tensors of both apart, got {nodes} of each"
        )
    found = {}
    for key, value in batch.to_dict().items():
        if not isinstance(value, Tensor) or value.dim() == 0 or key == "ptr":
            continue
        check_dense(f"batch.{key}", value)
        if key == "edge_index":
            found[key] = "edge"
        elif "index" in key:  # indices of nodes, whose padding would need to be valid indices
            continue
        elif key.startswith("edge_") and value.size(0) == edges:
            found[key] = "edge"
        else:
            rows = {edges: "edge", graphs: "graph", nodes: "node"}  # the last of equal sizes counts
            if value.size(0) in rows:
                found[key] = rows[value.size(0)]
    return found


def _sizes(batch: Data) -> tuple[int, int, int]:
    """Numbers of nodes, edges and graphs."""
    check_type("batch", batch, Data, "a Data or Batch of PyG")
    if not isinstance(batch.edge_index, Tensor):
        raise ValueError(f"`batch` must have an `edge_index`, got {batch.edge_index!r}")
    graphs = int(getattr(batch, "num_graphs", 1))
    nodes: Any = batch.num_nodes
    return int(nodes), batch.edge_index.size(1), graphs


def _another(buffer: Tensor, counts: Tensor, level: str) -> Tensor:
    """A row unlike the first: very different features if they are floating-point, else the types of the last row."""
    last = max(0, int(counts[0 if level == "node" else 1]) - 1)
    return 3 - 5 * buffer[:1] if buffer.is_floating_point() else buffer[last : last + 1]


def _rounded(size: float) -> int:
    return -(-int(size) // _MULTIPLE) * _MULTIPLE
