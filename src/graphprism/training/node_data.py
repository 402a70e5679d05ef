"""The graph of a run in the form that its network takes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset, row_normalise
from graphprism.nn.models import BASELINES, CONVOLUTIONS, MODELS
from graphprism.ops import RelationalAdj
from graphprism.ops.dropout import dropout
from graphprism.ops.sparse_features import sparse_with_values
from graphprism.training.edge_weights import run_weights, why_no_weights, with_coefficients
from graphprism.training.run import Run
from graphprism.training.run_splits import run_edges, run_splits, split_input
from graphprism.training.task import Task

DTYPES = {"float32": torch.float32, "bf16": torch.float32, "float64": torch.float64}
# Largest share of nonzero features at which CSR with its sorted indices saves memory.
_SPARSE_SHARE = 0.02
# Fewer nonzero features than this take at most a quarter of a gigabyte in CSR, which then only has to be faster: first
# layer of PubMed, a tenth of whose features are not zero, 35 against 97 ms for 192 outputs on one core.
_FEW, _FASTER_SHARE = 4_000_000, 0.15
# Fields of a run that decide its `NodeData`.
_FIELDS = ("split", "undirected", "self_loops", "row_normalise", "precision")


@dataclass(frozen=True, eq=False)
class NodeData:
    """Read-only data that runs on one graph share.

    Attributes:
        x: (N, F) features, in the precision of the run.
        y: (N,) classes, or other targets.
        adj: The second argument of the network: the edges with their relations, sorted; a list if layers have their own
            splits, the result of a baseline's ``prepare``, or None for a network without edges.
        masks: (3, N, S) nodes of training, validation and test in every official fold; S is 0 for links.
    """

    x: Tensor
    y: Tensor
    adj: Any
    masks: Tensor

    @staticmethod
    def key(run: Run) -> tuple[object, ...]:
        """Equal for runs on one data set that can share their data."""
        conv = MODELS[run.model]
        own = (run.model, run.options, run.layers) if run.model in BASELINES else ()
        weights = conv.edge_norm, why_no_weights(run)
        kind = conv.takes_graph, conv.relational, conv.takes_sparse
        return *kind, *weights, *own, *(getattr(run, name) for name in _FIELDS)

    @staticmethod
    def prepare(run: Run, dataset: PackedDataset, device: torch.device, lowest: float | None = None) -> NodeData:
        """Normalises features, splits and sorts edges: once, before training.

        Splits read the features as they are. ``lowest`` is the smallest of training, see
        `graphprism.datasets.row_normalise`.

        Raises:
            ValueError: The set has no masks or no such fold, or the run does not take the whole graph.
        """
        check_node_run(run, dataset)
        dtype = DTYPES[run.precision]
        x = row_normalise(dataset.x, lowest) if run.row_normalise else dataset.x
        x, conv = x.to(device, dtype), MODELS[run.model]
        masks = [dataset.train_mask, dataset.val_mask, dataset.test_mask]
        return NodeData(
            x=_sparse_if_that_pays(x) if conv.takes_sparse else x,
            y=dataset.y.to(device, torch.long) if dataset.task == "multiclass" else dataset.y.to(device, dtype),
            adj=_graph(run, dataset, x) if conv.takes_graph else None,
            masks=torch.stack([x.new_zeros(x.size(0), 0).bool() if mask is None else mask for mask in masks]).to(
                device
            ),
        )


def one_or_all(adjs: list[RelationalAdj]) -> RelationalAdj | list[RelationalAdj]:
    """A graph for all layers, or one for each of their splits."""
    return adjs[0] if len(adjs) == 1 else adjs


def _sparse_if_that_pays(x: Tensor) -> Tensor:
    """CSR on the CPU if nearly all entries are zero: a dense first layer of 2,325 features takes 2/3 of an epoch."""
    stored = int(x.count_nonzero())
    if x.device.type != "cpu" or stored > (_FASTER_SHARE if stored < _FEW else _SPARSE_SHARE) * x.numel():
        return x
    with warnings.catch_warnings():  # torch calls CSR a beta, once in a process
        warnings.simplefilter("ignore", UserWarning)
        return x.to_sparse_csr()


def check_node_run(run: Run, dataset: PackedDataset) -> None:
    """Raises `ValueError` unless a run can be trained on the nodes of a data set."""
    if dataset.level != "link":
        if dataset.train_mask is None or dataset.val_mask is None or dataset.test_mask is None:
            raise ValueError(f"`dataset` must have masks for training, validation and test, got {dataset!r} without")
        folds = dataset.train_mask.size(1)
        if run.fold >= folds:
            raise ValueError(f"`fold` must be in [0, {folds}), the official folds of {dataset.name}, got {run.fold}")
        if not dataset.train_mask[:, run.fold].any():
            raise ValueError(f"`train_mask` must have nodes, got none in fold {run.fold} of {dataset.name}")
    Task.of(dataset, run).check(run)
    if run.input_dropout and run.model in BASELINES and not BASELINES[run.model].drops_features:
        raise ValueError(f"`input_dropout` must be False for {run.model}, which propagates features once, got True")
    if run.neighbors is not None and run.remedy is not None:
        raise ValueError(f"`neighbors` must be None with the remedy {run.remedy}, got {run.neighbors}")
    if run.neighbors is not None and not runs_in_parts(run):
        raise ValueError(f"`model` must be a convolution of this package with `neighbors`, got {run.model!r}")
    if run.neighbors is not None and CONVOLUTIONS[run.model].counts_edges:
        raise ValueError(
            f"`neighbors` must be None with {run.model}, which reads the degrees of all edges, got {run.neighbors}"
        )


def runs_in_parts(run: Run) -> bool:
    """Whether the layers of a run can be evaluated for some nodes at a time, given the edges of these nodes."""
    conv = MODELS[run.model]
    return conv.takes_graph and conv.edge_norm is not None and run.remedy is None


def _graph(run: Run, dataset: PackedDataset, x: Tensor) -> Any:
    """The second argument of the network of a run, on the device of its features."""
    adjs = edges_of_run(run, dataset)
    if run.model not in BASELINES:
        return one_or_all([with_coefficients(run, each.to(x.device).prepare(), x.dtype) for each in adjs])
    adj = adjs[0].to(x.device)
    fixed: dict[str, Any] = {"num_layers": run.layers, "edge_type": adj.edge_type, "num_relations": adj.num_relations}
    return BASELINES[run.model].prepare(x, adj.edge_index.long(), x.dtype, **fixed, **run.model_options)


def edges_of_run(run: Run, dataset: PackedDataset) -> list[RelationalAdj]:
    """The graph of every split of the run, one where all layers share it, with weights as given."""
    num_nodes, weight = dataset.x.size(0), run_weights(run, dataset, DTYPES[run.precision])
    if not MODELS[run.model].relational:
        edge_index = _narrow(run_edges(run, dataset), num_nodes)
        return [RelationalAdj(edge_index, None, weight, num_nodes=num_nodes)]
    graph, found = split_input(run, dataset), []
    for split in run_splits(run, dataset):
        num_relations = split.num_relations or 1
        types = (graph.edge_index, split(graph))
        edge_index, edge_type = (_narrow(each, num_nodes * num_relations) for each in types if each is not None)
        found.append(RelationalAdj(edge_index, edge_type, weight, num_relations=num_relations, num_nodes=num_nodes))
    return found


def _narrow(numbers: Tensor, stop: int) -> Tensor:
    """As int32 if that holds all pairs (node, relation): saves 0.3 GB for the 14M edges of Snap-Patents."""
    if numbers.is_floating_point() or stop >= 2**31:
        return numbers
    return numbers.to(torch.int32)


def input_dropout(x: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Dropout of input features, not in place.

    For a sparse CSR tensor only stored entries are drawn for: a zero stays zero, dropped or not.

    Args:
        x: (N, F) features, dense or in CSR.
        share: Probability of dropping an entry, in [0, 1).
        generator: Draws the entries to drop, on the device of ``x``; draws nothing if ``share`` is 0.

    >>> sorted(set(input_dropout(torch.ones(50, 2), 0.5).flatten().tolist()))
    [0.0, 2.0]
    """
    if share == 0:
        return x
    if x.layout == torch.sparse_csr:
        return sparse_with_values(x, dropout(x.values(), share, generator))
    return dropout(x, share, generator)
