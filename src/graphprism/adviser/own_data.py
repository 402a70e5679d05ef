"""Graphs in memory as a data set with folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from graphprism._checks import check_homogeneous
from graphprism.datasets import PackedDataset, from_data
from graphprism.datasets.packed_dataset import MASKS

# Shares of the training and validation folds if the data has no masks; the rest is the test fold.
_TRAIN, _VALIDATION = 0.6, 0.2
_SHARES = (_TRAIN, _VALIDATION, 1 - _TRAIN - _VALIDATION)


def packed(data: Any, task: str | None) -> PackedDataset:
    """Packs one ``Data`` (targets of nodes, or links to predict) or several with targets of each into a data set.

    Targets are read as `from_data` reads them, so that the advice is about the runs that ``train`` would train.
    """
    check_homogeneous("data", data)
    if isinstance(data, Data) and task == "link":
        if data.x is None:
            raise ValueError("`data` must have features `x` (N, F), got a graph without")
        return from_data(data, "link", name="own")
    if isinstance(data, Data) and task != "graph":
        return _nodes(data)
    if isinstance(data, Data | str | bytes) or not isinstance(data, Iterable):
        raise TypeError(
            "`data` must be a PackedDataset, the name of one, a Data with targets of nodes or a list of Data with a "
            f"target each, got {type(data).__name__}"
        )
    graphs = list(data)
    if not graphs or not all(isinstance(graph, Data) for graph in graphs):
        raise ValueError(f"`data` must be a list of at least one Data, got {len(graphs)} entries")
    if any(graph.get("x") is None or graph.get("y") is None for graph in graphs):
        raise ValueError("every graph must have features or types `x` and a target `y`, got a graph without")
    return from_data(graphs, name="own", shares=_SHARES)


def drawn_folds(data: Any, task: str | None) -> str:
    """A sentence about the folds that `packed` draws; empty where the data has its own.

    >>> drawn_folds(Data(train_mask=True, val_mask=True, test_mask=True), None)
    ''
    """
    if isinstance(data, Data) and task == "link":
        return "Folds: links for validation and test were drawn."
    if isinstance(data, Data) and all(data.get(name) is not None for name in MASKS):
        return ""
    rest = 1 - _TRAIN - _VALIDATION
    shares = f"{_TRAIN:.0%} for training, {_VALIDATION:.0%} for validation, {rest:.0%} for test".replace("%", " %")
    masks = "; the data lacks train_mask, val_mask or test_mask" if isinstance(data, Data) else ""
    return f"Folds: drawn, {shares}{masks}."


def _nodes(data: Data) -> PackedDataset:
    if data.x is None or data.y is None:
        came = " and ".join(_came(name, data.get(name)) for name in ("x", "y"))
        raise ValueError(f"`data` must have features `x` (N, F) and targets `y` of its nodes, got {came}")
    if any(data.get(name) is None for name in MASKS):  # `drawn_folds` says so
        data = data.clone()
        for name in MASKS:
            data[name] = None
    return from_data(data, name="own", shares=_SHARES)


def _came(name: str, value: Tensor | None) -> str:
    return f"no {name}" if value is None else f"{name} {list(value.shape)} of {value.dtype}"
