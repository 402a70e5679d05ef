"""The network of a run on nodes."""

from __future__ import annotations

import torch

from graphprism.datasets import PackedDataset
from graphprism.nn import CONVOLUTIONS, GNN
from graphprism.splitting import resolve_split
from graphprism.training.node.node_run import NodeRun


def build_node_model(run: NodeRun, dataset: PackedDataset) -> GNN:
    """The network with its first weights, on the CPU in float32; drawn from the seed of the run and nothing else."""
    relations = (resolve_split(run.split).num_relations or 3) if CONVOLUTIONS[run.model].relational else 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        return GNN(
            run.model,
            run.width,
            dataset.num_outputs,
            run.layers,
            in_channels=dataset.x.size(1),
            encode=False,
            num_relations=relations,
            alpha=run.alpha,
            jk=run.jk,
            normalize=run.normalize,
            dropout=run.dropout,
            share_init=run.share_init,
        )
