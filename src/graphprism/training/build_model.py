"""The network of a run."""

from __future__ import annotations

import operator
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from graphprism._checks import check_path, check_type
from graphprism.datasets import DATASETS, PackedDataset
from graphprism.nn import BASELINES, GNN, MODELS, RemedyGNN
from graphprism.nn.models.fit_width import fit_width
from graphprism.nn.models.remedies import WITHOUT_MATRICES
from graphprism.training.checkpoint import load_weights
from graphprism.training.edge_weights import average_by_weight, uses_weights
from graphprism.training.fused_gnn import FusedGNN
from graphprism.training.provenance import data_identity
from graphprism.training.run import Run
from graphprism.training.run_splits import relations_of

# Columns of OGB's atoms, of which a data set may have fewer.
_ATOM_TYPES = DATASETS["peptides-func"].node_types

# Fitted widths by data set: fitting takes seconds with 128 layers.
_WIDTHS: WeakKeyDictionary[PackedDataset, dict[Run, int]] = WeakKeyDictionary()


def build_model(run: Run, dataset: PackedDataset) -> Any:
    """The network with its initial weights, on the CPU in float32; they depend on the seed of the run only.

    It is a `GNN`, or another network where the model of the run is one of `graphprism.nn.BASELINES`.

    >>> from graphprism.datasets import molecules
    >>> sum(weight.numel() for weight in build_model(Run(model="gcn", layers=8), molecules(10)).parameters())
    497212
    """
    check_type("run", run, Run, "a Run")
    check_type("dataset", dataset, PackedDataset, "a PackedDataset")
    width = width_of(run, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return _baseline(run, dataset, width) if run.model in BASELINES else make_network(run, dataset, width)


def width_of(run: Run, dataset: PackedDataset) -> int:
    """Channels of a hidden layer: ``run.width``, or the largest width within ``run.budget``."""
    if run.width is None and run.model in BASELINES:
        raise ValueError(f"`width` must be given for {run.model}, which is not a stack of convolutions, got None")
    if run.width is not None:
        return run.width
    # remedies without weight matrices get the width of the plain network
    remedy = None if run.remedy in WITHOUT_MATRICES else run.remedy
    counted = replace(run, remedy=remedy, seed=0, fold=0, lr=1.0)
    known = _WIDTHS.setdefault(dataset, {})
    if counted not in known:
        least = run.pe + 1
        known[counted] = fit_width(run.budget, lambda width: parameters_of(counted, dataset, width), smallest=least)
    return known[counted]


def parameters_of(run: Run, dataset: PackedDataset, width: int) -> int:
    """Parameters at this width as the paper counts them: an embedding of edge types belongs to every model."""
    with torch.device("meta"):
        network = make_network(run, dataset, width)
    unused = 0 if network.edge_encoder is not None else sum(dataset.edge_types) * width
    if run.node_encoder == "atoms":
        unused += sum(_ATOM_TYPES[len(dataset.node_types) :]) * (width - run.pe)
    return sum(parameter.numel() for parameter in network.parameters()) + unused


def make_network(run: Run, dataset: PackedDataset, width: int) -> GNN:
    """The network at this width; weights are drawn from the global random state.

    On graphs an encoder comes first and a readout before the head; on nodes the first convolution takes the features,
    as Dir-GNN does.
    """
    on_graphs = dataset.level == "graph"
    make: Any = RemedyGNN if run.remedy else FusedGNN if on_graphs else GNN
    network: GNN = make(
        run.remedy or run.model,
        width,
        width if dataset.level == "link" else dataset.num_outputs,  # links are scored by the states of their ends
        run.layers,
        num_relations=relations_of(run, dataset),
        in_channels=dataset.x.size(1),
        num_node_types=(node_types_of(run, dataset) or None) if on_graphs else None,
        num_edge_types=(dataset.edge_types or None) if on_graphs else None,
        pe_channels=run.pe,
        pe_encoder=run.pe_encoder,
        walk_steps=run.walk_steps,
        edge_walks=run.edge_walks,
        type_start="glorot" if run.node_encoder == "atoms" else "normal",
        encode=on_graphs or run.encode,
        residual=run.residual,
        edge_residual=run.edge_residual,
        edge_dropout=run.edge_dropout,
        ffn=run.ffn,
        activation=run.activation,
        split_layers=run.split_layers,
        jk=run.jk,
        norm=run.norm,
        normalize=run.normalize,
        dropout=run.dropout,
        alpha=run.alpha,
        start=run.start,
        decay=run.decay,
        deviation=run.deviation,
        weight_init=run.weight_init,
        learned_split=run.learned_split,
        readout=readout_of(dataset) if on_graphs else None,
        head_layers=run.head_layers,
        head=run.head,
        head_activation=run.head_activation,
    )
    if uses_weights(run, dataset) and MODELS[run.model].edge_norm == "none":
        average_by_weight(network)
    return network


def _baseline(run: Run, dataset: PackedDataset, width: int) -> torch.nn.Module:
    if dataset.level != "node":
        raise ValueError(f"`model` must be a convolution for targets of graphs, got {run.model}")
    baseline, relations = BASELINES[run.model], relations_of(run, dataset)
    if not isinstance(relations, int):
        raise ValueError(f"`split` must be one for all layers of {run.model}, got {run.split!r}")
    if run.learned_split or run.neighbors is not None:
        must = "`learned_split` must be False and `neighbors` None"
        raise ValueError(f"{must} for {run.model}, got {run.learned_split} and {run.neighbors}")
    return baseline.make(
        dataset.x.size(1),
        width,
        dataset.num_outputs,
        run.layers,
        num_nodes=dataset.x.size(0),
        dropout=run.dropout,
        num_relations=relations,
        fields={name: getattr(run, name) for name in baseline.fields},
        **run.model_options,
    )


def node_types_of(run: Run, dataset: PackedDataset) -> tuple[int, ...]:
    """Number of types in each column of node types: the sizes of the embeddings."""
    types = dataset.node_types
    if run.node_encoder == "types":
        return types
    if not types or len(types) > len(_ATOM_TYPES) or any(map(operator.gt, types, _ATOM_TYPES)):
        most = f"1 to {len(_ATOM_TYPES)} columns of at most {list(_ATOM_TYPES)} types"
        raise ValueError(f'nodes must have {most} with node_encoder="atoms", got {list(types)}')
    return _ATOM_TYPES[: len(types)]


def readout_of(dataset: PackedDataset) -> str:
    """The readout of a data set: the paper's choice where there is one, else a sum."""
    return DATASETS[dataset.name].readout if dataset.name in DATASETS else "sum"


def load_best(folder: str | Path, run: Run, dataset: PackedDataset) -> Any:
    """The network with the weights of the best validation score so far, on the CPU, ready to predict.

    Args:
        folder: The folder of checkpoints that `train` was given.
        run: The run that was trained.
        dataset: Its data.

    Raises:
        FileNotFoundError: The folder has no ``best.pt`` of the run.
        CheckpointError: The file is damaged or belongs to other data.
    """
    check_path("folder", folder)
    check_type("run", run, Run, "a Run")
    path = Path(folder) / run.key / "best.pt"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; `train` writes it when it is given this folder")
    weights = load_weights(path, run, data_identity(dataset))
    network = build_model(run, dataset)
    if run.precision == "float64":
        network = network.double()
    network.load_state_dict(weights)
    return network.eval()
