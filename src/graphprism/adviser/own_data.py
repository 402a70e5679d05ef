"""Graphs in memory as a data set with folds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism._checks import check_homogeneous
from graphprism.datasets import DATASETS, PackedDataset, from_data
from graphprism.datasets.from_data import check_graphs, join_inputs, join_weights
from graphprism.datasets.load import pack_graphs
from graphprism.datasets.packed_dataset import pack_nodes
from graphprism.known import KnownDataset

# Shares of the training and validation folds if the data has no masks; the rest is the test fold.
_TRAIN, _VALIDATION = 0.6, 0.2


def packed(data: Any, task: str | None) -> PackedDataset:
    """Packs one ``Data`` (node classes, or links to predict) or several with a target each into a data set."""
    check_homogeneous("data", data)
    if isinstance(data, Data) and task == "link":
        if data.x is None:
            raise ValueError("`data` must have features `x` (N, F), got a graph without")
        return from_data(data, "link", name="own")
    if isinstance(data, Data) and task != "graph":
        return _nodes(data)
    if isinstance(data, Data | str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            "`data` must be a PackedDataset, the name of one, a Data with classes of nodes or a list of Data with a "
            f"target each, got {type(data).__name__}"
        )
    graphs = list(data)
    if not graphs or not all(isinstance(graph, Data) for graph in graphs):
        raise ValueError(f"`data` must be a list of at least one Data, got {len(graphs)} entries")
    return _graphs(graphs)


def drawn_folds(data: Any, task: str | None) -> str:
    """A sentence about the folds that `packed` draws; empty where the data has its own.

    >>> drawn_folds(Data(train_mask=True, val_mask=True, test_mask=True), None)
    ''
    """
    if isinstance(data, Data) and task == "link":
        return "Folds: links for validation and test were drawn."
    if isinstance(data, Data) and all(data.get(name) is not None for name in _MASKS):
        return ""
    rest = 1 - _TRAIN - _VALIDATION
    shares = f"{_TRAIN:.0%} for training, {_VALIDATION:.0%} for validation, {rest:.0%} for test".replace("%", " %")
    masks = "; the data lacks train_mask, val_mask or test_mask" if isinstance(data, Data) else ""
    return f"Folds: drawn, {shares}{masks}."


_MASKS = ("train_mask", "val_mask", "test_mask")


def _nodes(data: Data) -> PackedDataset:
    if data.x is None or data.y is None or data.y.dim() != 1 or data.y.is_floating_point():
        came = " and ".join(_came(name, data.get(name)) for name in ("x", "y"))
        raise ValueError(
            f"`data` must have features `x` (N, F) and whole numbers `y` (N,), the classes of its nodes, got {came}"
        )
    check_graphs([data])
    masks = [data.get(name) for name in _MASKS]
    if any(mask is None for mask in masks):
        masks = [each[:, None] for each in _folds(int(data.num_nodes or 0))]
    columns = [mask.view(int(data.num_nodes or 0), -1) for mask in masks if mask is not None]
    known = KnownDataset(
        "", {}, "multiclass", "accuracy", (), (), "own", level="node", directed=not data.is_undirected()
    )
    found = pack_nodes("own", known, data.x, data.edge_index, data.y, (columns[0], columns[1], columns[2]))
    # whole numbers on edges are types, which splits may name; networks of nodes do not read others
    edge_attr, edge_types = join_inputs([data.get("edge_attr")], torch.tensor([data.num_edges]), "graph")
    found = replace(found, edge_weight=join_weights([data]))
    return replace(found, edge_attr=edge_attr, edge_types=edge_types) if edge_types else found


def _came(name: str, value: Tensor | None) -> str:
    return f"no {name}" if value is None else f"{name} {list(value.shape)} of {value.dtype}"


def _graphs(graphs: list[Data]) -> PackedDataset:
    y = graphs[0].y
    if y is None or graphs[0].x is None:
        raise ValueError("every graph must have features or types `x` and a target `y`, got a graph without")
    whole = torch.cat([graph.x for graph in graphs])
    types = () if whole.is_floating_point() else tuple((whole.view(whole.size(0), -1).amax(0) + 1).tolist())
    kind = ("regression", "mae") if y.is_floating_point() else ("multiclass", "accuracy")
    known = KnownDataset("", {}, *kind, types, (), "own")
    fold = torch.stack(_folds(len(graphs))).int().argmax(0)
    found = [_with_edge_attr(graph) for graph in graphs]
    check_graphs(found)
    packed = pack_graphs("own" if "own" not in DATASETS else "own data", known, found, fold)
    return replace(packed, edge_weight=join_weights(graphs))


def _with_edge_attr(graph: Data) -> Data:
    found = graph.clone()
    found.x = graph.x if graph.x.dim() == 2 else graph.x[:, None]
    if graph.edge_attr is None:
        found.edge_attr = torch.zeros(graph.num_edges, 1, dtype=torch.long)
    return found


def _folds(count: int) -> list[Tensor]:
    """Masks of the training, validation and test folds, drawn with a fixed seed."""
    place = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    first, second = int(_TRAIN * count), int((_TRAIN + _VALIDATION) * count)
    return [place < first, (place >= first) & (place < second), place >= second]
