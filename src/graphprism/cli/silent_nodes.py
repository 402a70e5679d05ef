"""A notice of `graphprism train` about nodes whose own features a model never reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from graphprism.datasets import PackedDataset
from graphprism.nn import CONVOLUTIONS
from graphprism.training import Run, build_model


def silent_nodes(runs: Sequence[Run], dataset: PackedDataset) -> list[str]:
    """A line about nodes that receive no message, in models that read a node by its messages alone.

    Such a model has one output for all of these nodes. On a directed graph they may be most of them.
    """
    if dataset.level != "node":
        return []
    found: dict[int, list[str]] = {}
    for run in {run.model: run for run in runs}.values():
        # a remedy's network has an encoder, and an input of its own
        known = run.model in CONVOLUTIONS and run.remedy is None and not run.self_loops
        if known and not _reads_own_features(run, dataset):
            found.setdefault(_count(run, dataset), []).append(run.model)
    return [
        f"{count:,} of {dataset.x.size(0):,} nodes receive no message: {' and '.join(models)} "
        f"{'predicts' if len(models) == 1 else 'predict'} the same for all of them, whatever their features. "
        "sage reads them, and so does every model with --self-loops."
        for count, models in found.items()
        if count > 1
    ]


def _reads_own_features(run: Run, dataset: PackedDataset) -> bool:
    """Whether the network tells two nodes without edges apart."""
    network = build_model(replace(run, split="degree"), dataset).eval()  # any split will do: there are no edges
    x = torch.rand(2, dataset.x.size(1), generator=torch.Generator().manual_seed(0))
    edges, types = torch.zeros(2, 0, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    with torch.no_grad():
        out = network(
            x.to(next(network.parameters()).dtype), edges, types if CONVOLUTIONS[run.model].relational else None
        )
    return not torch.equal(out[0], out[1])


def _count(run: Run, dataset: PackedDataset) -> int:
    """Number of nodes that receive no message."""
    both_ways = run.undirected or CONVOLUTIONS[run.model].directed
    receivers = (dataset.edge_index if both_ways else dataset.edge_index[1]).long()
    return dataset.x.size(0) - int(receivers.unique().numel())
