"""Runs one after another, with PyTorch's optimisers: what runs in lockstep must equal."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.training import PreparedDataset, Run, build_model, epoch_order, learning_rate
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.group import LockstepGroup
from graphprism.training.optim import make_optimizer
from graphprism.training.task import loss_sum

CPU = torch.device("cpu")


def make_group(runs: list[Run], dataset: PackedDataset, **options: bool) -> LockstepGroup:
    """The runs in lockstep, in float64."""
    return LockstepGroup(runs, dataset, TableDataset(runs[0], dataset, CPU, torch.float64), CPU, **options)


def train_eagerly(run: Run, dataset: PackedDataset, epochs: int = 1) -> tuple[GNN, list[float]]:
    """The network after some epochs in float64, and the mean loss over graphs of each."""
    network = build_model(run, dataset).double()
    optimizer = make_optimizer(run, network.parameters())
    data, graphs, means = PreparedDataset(run, dataset), dataset.subset("train"), []
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(run, epoch)
        total = 0.0
        for batch in data.batches(graphs[epoch_order(run.seed, epoch, graphs.numel())], run.batch_size):
            loss = loss_sum(dataset.task, network(**batch.inputs), batch.y)
            optimizer.zero_grad()
            (loss / batch.total).backward()
            if run.clip:
                torch.nn.utils.clip_grad_norm_(network.parameters(), run.clip)
            optimizer.step()
            total += loss.item()
        means.append(total / graphs.numel())
    return network, means


@torch.no_grad()
def evaluate(network: GNN, run: Run, dataset: PackedDataset, subset: str) -> Tensor:
    """Outputs on a subset."""
    (batch,) = PreparedDataset(run, dataset).batches(dataset.subset(subset), 10_000)
    return network.eval()(**batch.inputs)
