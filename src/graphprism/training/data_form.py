"""The form of a data set: what a network needs to know of its training data to predict, stored with its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from graphprism.datasets import PackedDataset
from graphprism.nn import BASELINES, MODELS
from graphprism.splitting import split_text
from graphprism.splitting.split import Only, only
from graphprism.splitting.splits import ByOrder
from graphprism.training.edge_weights import uses_weights
from graphprism.training.run import Run
from graphprism.training.run_splits import loop_types, run_splits

_NAMES = ("name", "level", "task", "metric", "node_types", "edge_types", "directed", "preprocessing")


def form_of(dataset: PackedDataset, run: Run) -> dict[str, Any]:
    """Level, task, types, sizes and preprocessing of a data set, and the split that a run fits to it, as plain values.

    >>> from graphprism.datasets import molecules
    >>> form = form_of(molecules(50), Run(split="degree; attr(edge_attr)"))
    >>> form["level"], form["node_types"], form["outputs"], form["split"]
    ('graph', [28], 1, 'degree; only(attr(edge_attr, 4), 1..3)')
    """
    found = {name: getattr(dataset, name) for name in _NAMES}
    is_input = not dataset.node_types and dataset.x.numel() > 0
    return {
        **found,
        "node_types": list(dataset.node_types),
        "edge_types": list(dataset.edge_types),
        "outputs": dataset.num_outputs,
        "split": _fitted_split(dataset, run),
        "features": dataset.x.size(1),
        "edge_features": None if dataset.edge_attr is None else dataset.edge_attr.size(1),
        "edge_weight": uses_weights(run, dataset),
        "loop_types": loop_types(dataset) if dataset.level != "graph" else [],
        # smallest entry, which row normalisation subtracts
        "lowest": min(0.0, float(dataset.x.min())) if is_input else 0.0,
        # some baselines have a weight for each node
        **({"nodes": dataset.x.size(0)} if run.model in BASELINES else {}),
    }


def _fitted_split(dataset: PackedDataset, run: Run) -> str:
    """The split restricted to the relations of this data set: they keep their numbers in a graph that lacks some."""
    if not MODELS[run.model].relational:
        return run.split
    splits = [
        each if isinstance(each, ByOrder | Only) else only(each, range(each.num_relations or 1))
        for each in run_splits(run, dataset)
    ]
    return split_text(splits)


def empty_dataset(form: Mapping[str, Any]) -> PackedDataset:
    """A data set of this form without any graph: what `build_model` needs.

    Raises:
        ValueError: An entry of the form is missing or has a wrong type.
    """
    try:
        classes = form["task"] == "multiclass"
        outputs, features = int(form["outputs"]), int(form["features"])
        return PackedDataset(
            **{name: form[name] for name in ("name", "level", "task", "metric", "directed", "preprocessing")},
            x=torch.zeros(0, features),
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            edge_attr=None if form["edge_features"] is None else torch.zeros(0, int(form["edge_features"])),
            y=torch.zeros(0, dtype=torch.long) if classes else torch.zeros(0, outputs),
            node_ptr=torch.zeros(1, dtype=torch.long),
            edge_ptr=torch.zeros(1, dtype=torch.long),
            node_types=tuple(int(each) for each in form["node_types"]),
            edge_types=tuple(int(each) for each in form["edge_types"]),
            num_classes=outputs if classes else 0,
            # checkpoints from before weights were read have none
            edge_weight=torch.zeros(0) if form.get("edge_weight", False) else None,
        )
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(f"the form of a data set must be as training wrote it, got {error!r}") from None


def in_form(graphs: PackedDataset, form: Mapping[str, Any]) -> PackedDataset:
    """Graphs without targets as a set of this form, with targets of 0, and every row in every fold.

    Raises:
        ValueError: Their features are not those of the form.
    """
    empty = empty_dataset(form)
    if graphs.x.size(1) != empty.x.size(1):
        raise ValueError(f"nodes must have {empty.x.size(1)} features as in training, got {graphs.x.size(1)}")
    if empty.edge_types and (graphs.edge_attr is None or graphs.edge_attr.size(1) != len(empty.edge_types)):
        came = None if graphs.edge_attr is None else graphs.edge_attr.size(1)
        raise ValueError(f"edges must have {len(empty.edge_types)} columns of types as in training, got {came}")
    if empty.edge_weight is not None and graphs.edge_weight is None:
        raise ValueError("edges must have weights as in training (`edge_weight`), got none")
    if empty.node_types and graphs.x.is_floating_point():
        raise ValueError(f"nodes must have types as in training, which are whole numbers, got {graphs.x.dtype}")
    edge_attr = graphs.edge_attr
    if empty.edge_types and edge_attr is not None and not edge_attr.numel():
        edge_attr = edge_attr.long()  # numbers of no edge are not known to be types
    rows = len(graphs) if empty.level == "graph" else graphs.x.size(0)
    mask = torch.ones(rows, 1, dtype=torch.bool) if empty.level == "node" else None
    return replace(
        empty,
        x=graphs.x if empty.node_types or empty.level != "graph" else graphs.x.float(),
        edge_index=graphs.edge_index,
        edge_attr=edge_attr,
        edge_weight=None if empty.edge_weight is None else graphs.edge_weight,
        node_ptr=graphs.node_ptr,
        edge_ptr=graphs.edge_ptr,
        y=empty.y.new_zeros(rows, *empty.y.shape[1:]),
        train_mask=mask,
        val_mask=mask,
        test_mask=mask,
        split=torch.zeros(rows, dtype=torch.long) if mask is None else None,
        pairs=graphs.pairs,
    )
