"""Self-loops added by a layer, as PyG's layers do, in the last relation."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, add_self_loops

from graphprism.nn.conv.operands import Prepared
from graphprism.ops import RelationalAdj

Adj = TypeVar("Adj", bound=Prepared)


def check_takes_loops(edge_index: Tensor | Prepared, adds_loops: bool) -> None:
    """Raises if a layer would add self-loops to a prepared graph that cannot be extended."""
    if adds_loops and not isinstance(edge_index, Tensor | RelationalAdj):
        came = type(edge_index).__name__
        raise TypeError(
            f"`edge_index` must be a torch.Tensor or a RelationalAdj with `add_self_loops=True`, got a {came}: add the "
            "self-loops before the split, and omit `add_self_loops`"
        )


def with_remaining_loops(adj: Adj, fill_value: float) -> Adj:
    """A self-loop at every node, as PyG's GCN adds them: existing ones keep their weight."""
    assert isinstance(adj, RelationalAdj)
    edges, weight = add_remaining_self_loops(adj.edge_index, adj.edge_weight, fill_value, _number_of_nodes(adj))
    return _rebuilt(adj, edges, weight, _between_nodes(adj))


def with_weighted_loops(adj: Adj, fill_value: float, dtype: torch.dtype) -> Adj:
    """`with_remaining_loops` for sums: existing self-loops get weight 0, and the added ones take their weight.

    The number of edges does not depend on values: no host-device sync, and static shapes in compiled code. A prepared
    graph caches the result.
    """
    assert isinstance(adj, RelationalAdj)
    key = ("weighted loops", fill_value, dtype)
    return adj.derived(key, lambda: _weighted_loops(adj, fill_value, dtype))  # type: ignore[return-value]


def _weighted_loops(adj: RelationalAdj, fill_value: float, dtype: torch.dtype) -> RelationalAdj:
    edges, number = adj.edge_index, _number_of_nodes(adj)
    is_loop = edges[0] == edges[1]
    weight = adj.edge_weight
    if weight is None:  # PyG uses its fill value only with weights
        weight, fill_value = torch.ones(adj.num_edges, dtype=dtype, device=adj.device), 1.0
    # weights of loops go to their node, all others to an extra row that is discarded
    at_nodes = weight.new_full((number + 1,), fill_value)
    at_nodes = at_nodes.index_put((torch.where(is_loop, edges[0], number),), weight)[:number]
    weight = torch.cat([torch.where(is_loop, 0, weight), at_nodes])
    nodes = torch.arange(number, device=adj.device, dtype=edges.dtype)
    edges = torch.cat([edges, torch.stack([nodes, nodes])], dim=1)
    return _rebuilt(adj, edges, weight)


def weight_with_loops(
    edge_index: Tensor, edge_weight: Tensor | None, fill_value: float, dtype: torch.dtype
) -> Tensor | None:
    """Weights (E,) of the entries of a sparse tensor for `with_weighted_loops`, so that it gives PyG's GCN of them.

    PyG adds its self-loops to those of a sparse tensor, unlike to those of a tensor (2, E), and always takes its fill
    value. None where all weights stay one.
    """
    is_loop = edge_index[0] == edge_index[1]
    if edge_weight is None:
        if fill_value == 1 and not bool(is_loop.any()):
            return None
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
    return torch.where(is_loop, edge_weight + fill_value, edge_weight)


def with_new_loops(adj: Adj, edge_attr: Tensor | None, fill_value: float | Tensor | str) -> tuple[Adj, Tensor | None]:
    """A self-loop at every node, as PyG's GAT adds them: replaces existing ones, with their weights and features.

    Shapes: ``edge_attr`` (E, D) -> (E', D)
    """
    assert isinstance(adj, RelationalAdj)
    if edge_attr is None:
        return adj.derived("new loops", lambda: _new_loops(adj, _between_nodes(adj))), None  # type: ignore[return-value]
    kept = _between_nodes(adj)
    looped = adj.derived("new loops", lambda: _new_loops(adj, kept))
    _, edge_attr = add_self_loops(adj.edge_index[:, kept], edge_attr[kept], fill_value, min(adj.size))
    return looped, edge_attr  # type: ignore[return-value]


def _between_nodes(adj: RelationalAdj) -> Tensor:
    """Positions of edges that are no self-loops, once for all: their number is a new unknown in compiled code."""
    return (adj.edge_index[0] != adj.edge_index[1]).nonzero().view(-1)


def _new_loops(adj: RelationalAdj, kept: Tensor) -> RelationalAdj:
    number, weight = min(adj.size), adj.edge_weight
    weight = None if weight is None else torch.cat([weight[kept], weight.new_ones(number)])
    edges, _ = add_self_loops(adj.edge_index[:, kept], num_nodes=number)
    return _rebuilt(adj, edges, weight, kept)


def _number_of_nodes(adj: RelationalAdj) -> int:
    if adj.size[0] != adj.size[1]:
        raise ValueError(f"`x` must be one set of nodes with `add_self_loops=True`, got {adj.size} of them")
    return adj.size[0]


def _rebuilt(adj: Adj, edges: Tensor, weight: Tensor | None, kept: Tensor | None = None) -> Adj:
    """The graph of ``edges``: the edges of ``adj`` in their order, all or those ``kept``, then new self-loops."""
    assert isinstance(adj, RelationalAdj)
    types = adj.edge_type
    if types is not None:
        types = types if kept is None else types[kept]
        last = types.new_full((edges.size(1) - types.size(0),), adj.num_relations - 1)
        if adj.is_soft:
            last = torch.nn.functional.one_hot(last.long(), adj.num_relations).to(types.dtype)
        types = torch.cat([types, last])
    return RelationalAdj.in_forward(edges, types, weight, adj.num_relations, adj.size)  # type: ignore[return-value]
