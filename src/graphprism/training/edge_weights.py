"""The weights of edges in a run: which models take them, and how each model normalises them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, to_undirected

from graphprism.datasets import PackedDataset
from graphprism.nn import MODELS, MRSSAGEConv
from graphprism.ops import RelationalAdj
from graphprism.training.run import Run


def why_no_weights(run: Run) -> str:
    """Why the network of a run cannot use weights of edges, in a few words; empty where it can.

    >>> why_no_weights(Run(model="gcn")), why_no_weights(Run(model="pyg-rgcn"))
    ('', 'pyg-rgcn takes edges without weights')
    """
    if run.remedy == "dropedge":
        return "dropedge computes the weights of the edges that it keeps"
    return "" if MODELS[run.model].takes_edge_weight else f"{run.model} takes edges without weights"


def uses_weights(run: Run, dataset: PackedDataset) -> bool:
    """Whether a run reads the weights of the edges of a data set."""
    return dataset.edge_weight is not None and not why_no_weights(run)


def check_weights(run: Run, dataset: PackedDataset) -> None:
    """Raises `ValueError` for a negative weight in a model that divides by sums of weights, where it has no meaning."""
    if not uses_weights(run, dataset) or MODELS[run.model].takes_signed_weight:
        return
    assert dataset.edge_weight is not None  # `uses_weights` says so
    if dataset.edge_weight.numel() and (lowest := float(dataset.edge_weight.min())) < 0:
        signed = ", ".join(name for name, conv in MODELS.items() if conv.takes_signed_weight)
        raise ValueError(
            f"`edge_weight` must not be negative with {run.model}, which divides by sums of weights, got {lowest:g}; "
            f"make the sign a type in `edge_attr` and split by it, or take a model that sums messages ({signed})"
        )


def warn_of_unused_weights(run: Run, dataset: PackedDataset) -> None:
    """Warns that a run ignores weights: it is then compared with runs that use them. Not of a network without edges."""
    reason = why_no_weights(run)
    if reason and dataset.edge_weight is not None and MODELS[run.model].takes_graph:
        warnings.warn(f"the `edge_weight` of {dataset.name} is ignored: {reason}", stacklevel=3)


def run_weights(run: Run, dataset: PackedDataset, dtype: torch.dtype) -> Tensor | None:
    """Weights of the edges of a run, (E,); None where it uses none.

    At node level these are the edges of `run_edges`: of an undirected run an edge and its reverse have the mean of the
    weights of all edges between their ends, and an added loop has weight 1. Weights of 1 are then the same as none.
    """
    if not uses_weights(run, dataset) or dataset.edge_weight is None:
        return None
    weight = dataset.edge_weight.to(dtype)
    if dataset.level == "graph":
        return weight
    edge_index, num_nodes = dataset.edge_index.long(), dataset.x.size(0)
    if run.undirected:
        edge_index, weight = to_undirected(edge_index, weight, num_nodes, reduce="mean")
    if run.self_loops:
        _, weight = add_remaining_self_loops(edge_index, weight, 1.0, num_nodes)
    return weight


def with_coefficients(run: Run, adj: RelationalAdj, dtype: torch.dtype) -> RelationalAdj:
    """A graph with weights as the convolutions of a run take it: normalised on top of them where they normalise.

    A graph without weights stays as it is, since layers then normalise themselves.
    """
    norm = MODELS[run.model].edge_norm or "none"
    return adj if adj.edge_weight is None or norm == "none" else adj.normalized(norm, dtype)


def average_by_weight(network: torch.nn.Module) -> None:
    """Makes every mean of a network a weighted one; for layers that take means of both directions themselves."""
    for layer in network.modules():
        if isinstance(layer, MRSSAGEConv):
            layer.weighted_mean = True
