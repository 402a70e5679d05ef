"""The network of a run."""

from __future__ import annotations

import torch

from graphprism.datasets import PackedDataset
from graphprism.nn import MRSGNN
from graphprism.splitting import resolve_split
from graphprism.training.fit_width import fit_width
from graphprism.training.run import Run


def build_model(run: Run, dataset: PackedDataset) -> MRSGNN:
    """The network with its first weights, on the CPU in float32; drawn from the seed of the run and nothing else.

    >>> from graphprism.datasets import molecules
    >>> sum(weight.numel() for weight in build_model(Run(model="gcn", layers=8), molecules(10)).parameters())
    497212
    """
    width = width_of(run, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return make_network(run, dataset, width)


def width_of(run: Run, dataset: PackedDataset) -> int:
    """Channels of a hidden layer: what the run says, or the most that its budget allows."""
    return run.width or fit_width(run.budget, lambda width: parameters_of(run, dataset, width), smallest=run.pe + 1)


def parameters_of(run: Run, dataset: PackedDataset, width: int) -> int:
    """Parameters at this width as the paper counts them: an embedding of edge types belongs to every model."""
    with torch.device("meta"):
        network = make_network(run, dataset, width)
    unused = 0 if network.edge_encoder is not None else sum(dataset.edge_types) * width
    return sum(parameter.numel() for parameter in network.parameters()) + unused


def make_network(run: Run, dataset: PackedDataset, width: int) -> MRSGNN:
    """The network at this width; weights come from the global random state."""
    return MRSGNN(
        run.model,
        width,
        dataset.num_outputs,
        run.layers,
        num_relations=relations_of(run),
        in_channels=dataset.x.size(1),
        num_node_types=dataset.node_types or None,
        num_edge_types=dataset.edge_types or None,
        pe_channels=run.pe,
        residual=run.residual,
        jk=run.jk,
        norm=run.norm,
        dropout=run.dropout,
        # The paper reads out Peptides by a mean and ZINC by a sum.
        readout="mean" if dataset.name.startswith("peptides") else "sum",
    )


def relations_of(run: Run) -> int:
    """Relations of the graph that the model of a run takes."""
    return (resolve_split(run.split).num_relations or 3) if run.model.startswith("mrs-") else 1
