"""Relations for batches from loaders with graph stores, such as those of cuGraph-PyG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from graphprism._checks import check_choice, check_integer, check_positive, check_shape, check_type
from graphprism.splitting import check_split

# Names in a store: the node type, and the prefix of the edge type of each relation.
NODES, RELATION = "node", "relation_"


def with_edge_type(batch: Data, edge_type: Any, edge_weight: Any = None) -> Data:
    """Writes the relations and weights of the whole graph into a sampled batch, by ``e_id``.

    Args:
        batch: a batch with ``e_id``, the index of each of its edges in the whole graph, as every loader writes it.
        edge_type: (E,) relations of all edges of the graph: a tensor on any device, or an object of a feature store
            that can be indexed by a tensor (``store[("n", "e", "n"), "edge_type", None]``).
        edge_weight: (E,) weights of all edges, such as those of `RelationalNorm`; a tensor or such an object.

    Example:
        >>> batch = Data(edge_index=torch.tensor([[0, 1], [2, 2]]), e_id=torch.tensor([5, 3]))
        >>> with_edge_type(batch, torch.tensor([0, 1, 2, 0, 1, 2])).edge_type
        tensor([2, 0])
    """
    number = getattr(batch, "e_id", None)
    if number is None:
        raise ValueError("`batch.e_id` must be given, the indices of its edges in the whole graph, got None")
    check_shape("batch.e_id", number, [batch.edge_index.size(1)])
    batch.edge_type = _rows(edge_type, number, batch.edge_index.device).long()
    if edge_weight is not None:
        batch.edge_weight = _rows(edge_weight, number, batch.edge_index.device)
    return batch


def _rows(table: Any, number: Tensor, device: torch.device) -> Tensor:
    """Rows of a tensor, gathered on its device, or of another indexable table; a single column is squeezed."""
    found = table[number.to(table.device)] if isinstance(table, Tensor) else table[number]
    check_type("edge_type", found, Tensor, "a table whose rows are tensors")
    return found.view(number.numel(), -1).squeeze(1).to(device)


def put_relations(
    graph_store: Any, data: Data, num_relations: int, *, layout: str = "coo", nodes: str = NODES
) -> list[tuple[str, str, str]]:
    """Puts the edges of each relation into a graph store, as one edge type each.

    Loaders that sample from a graph store (cuGraph-PyG's ``GraphStore``, a database's) then return a ``HeteroData``
    with these types, which `merge_relations` converts to a batch with ``edge_type``. There the number of neighbours is
    per type: three relations with 10 neighbours are up to 30.

    Args:
        graph_store: PyG's ``GraphStore``, or one with its ``put_edge_index``.
        data: a ``Data`` that `SplitEdges` has split.
        num_relations: number of relations R; empty relations are put, too.
        layout: ``"coo"``, as cuGraph-PyG requires.
        nodes: name of the node type.

    Returns:
        The edge types, in the order of relations.
    """
    check_choice("layout", layout, ("coo",))
    check_positive("num_relations", num_relations)
    check_shape("data.edge_type", data.edge_type, [data.edge_index.size(1)])
    check_integer("data.edge_type", data.edge_type)
    check_split(data)
    size = (int(data.num_nodes or 0), int(data.num_nodes or 0))
    kinds = [(nodes, f"{RELATION}{relation}", nodes) for relation in range(num_relations)]
    for relation, kind in enumerate(kinds):
        edges = data.edge_index[:, data.edge_type == relation]
        graph_store.put_edge_index(edges, edge_type=kind, layout=layout, is_sorted=False, size=size)
    return kinds


def merge_relations(batch: HeteroData, kinds: Sequence[tuple[str, str, str]]) -> Data:
    """Merges a batch with one edge type per relation into one graph with ``edge_type`` and ``batch_size``.

    Node attributes are kept; edge attributes that all types have are concatenated in the order of relations.

    Args:
        batch: a batch of a loader for a store filled by `put_relations`.
        kinds: the edge types that `put_relations` returned.
    """
    check_type("batch", batch, HeteroData, "a HeteroData")
    ends = {end for kind in kinds for end in (kind[0], kind[2])}
    if len(ends) != 1:
        raise ValueError(f"`kinds` must join nodes of one type, got {sorted(ends)}")
    stores = [batch[kind] for kind in kinds if kind in batch.edge_types]
    numbers = [relation for relation, kind in enumerate(kinds) if kind in batch.edge_types]
    found: dict[str, Any] = dict(batch[ends.pop()].to_dict())
    edges = [store.edge_index for store in stores]
    device = edges[0].device if edges else torch.device("cpu")
    none = torch.zeros(2, 0, dtype=torch.long, device=device)
    found["edge_index"] = torch.cat([none, *edges], dim=1)
    counts = torch.tensor([each.size(1) for each in edges], device=device)
    found["edge_type"] = torch.tensor(numbers, device=device, dtype=torch.long).repeat_interleave(counts)
    for name in _shared_names(stores):
        found[name] = torch.cat([store[name] for store in stores])
    return Data(**found)


def _shared_names(stores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Attributes with one row per edge that all stores have, without ``e_id``, which is per edge type."""
    skipped = {"edge_index", "e_id", "edge_type"}
    return [
        name
        for name, value in (stores[0].items() if stores else ())
        if name not in skipped
        and isinstance(value, Tensor)
        and all(
            isinstance(each.get(name), Tensor) and each[name].size(0) == each["edge_index"].size(1) for each in stores
        )
    ]
