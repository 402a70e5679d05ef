"""Runs one after another, with PyTorch's optimisers: what runs in lockstep must equal."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.training import Run, build_model
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.optim import epoch_order, make_optimizer
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task

CPU = torch.device("cpu")
# Written out, so that no rule of the package decides what is tested.
MODELS = (
    *("gcn", "mrs-gcn", "sage", "mrs-sage", "gat", "mrs-gat", "gin", "mrs-gin"),
    *("gated-gcn", "mrs-gated-gcn", "mrs-gated-gcn-9", "gat-degree", "lmgc"),
)


def make_engine(runs: list[Run], dataset: PackedDataset) -> LockstepEngine:
    """The runs in lockstep, in float64."""
    return LockstepEngine(runs, dataset, TableDataset(runs[0], dataset, CPU, torch.float64), CPU)


def train_eagerly(run: Run, dataset: PackedDataset, epochs: int = 1) -> tuple[GNN, list[float]]:
    """The network after some epochs in float64, and the mean loss over graphs of each."""
    network = build_model(run, dataset).double()
    optimizer = make_optimizer(run, network.parameters())
    data, graphs, means = PreparedDataset(run, dataset), dataset.subset("train"), []
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = learning_rate(run, epoch)
        total = 0.0
        for batch in data.batches(graphs[epoch_order(run.seed, epoch, graphs.numel())], run.batch_size):
            loss = Task.of(dataset).losses(network(**batch.inputs), batch.y).sum()
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
