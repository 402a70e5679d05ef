"""The protocol written down a second time, with nothing but torch and PyG."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.training import Run, build_model
from graphprism.training.optim import epoch_order
from graphprism.training.schedule import learning_rate
from graphprism.transforms import SplitEdges

LOSSES = {
    "regression": torch.nn.functional.l1_loss,
    "multilabel": torch.nn.functional.binary_cross_entropy_with_logits,
    "multiclass": lambda output, target: torch.nn.functional.cross_entropy(output, target.view(-1)),
}


def train_by_hand(run: Run, dataset: PackedDataset) -> tuple[GNN, list[list[float]], list[dict[str, Tensor]]]:
    """The network, the losses of all steps and the outputs on each subset after every epoch; in double."""
    network = build_model(run, dataset).double()
    make = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[run.optimizer]
    optimizer = make(network.parameters(), lr=run.lr, weight_decay=run.weight_decay)
    graphs = [SplitEdges(run.split)(dataset.graph(number)) for number in range(len(dataset))]
    chosen = dataset.subset("train")
    losses, outputs = [], []
    for epoch in range(run.epochs):
        order = chosen[epoch_order(run.seed, epoch, chosen.numel())].tolist()
        loader = DataLoader([graphs[number] for number in order], run.batch_size)
        network.train()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(run, epoch)
        losses.append([step(run, dataset.task, network, optimizer, batch) for batch in loader])
        network.eval()
        subsets = {name: [graphs[number] for number in dataset.subset(name).tolist()] for name in ("val", "test")}
        with torch.no_grad():
            outputs.append({name: forward(network, next(iter(DataLoader(g, 999)))) for name, g in subsets.items()})
    return network, losses, outputs


def step(run: Run, task: str, network: GNN, optimizer: torch.optim.Optimizer, batch) -> float:
    target = batch.y.double() if batch.y.is_floating_point() else batch.y
    loss = LOSSES[task](forward(network, batch), target)
    optimizer.zero_grad()
    loss.backward()
    if run.clip:
        torch.nn.utils.clip_grad_norm_(network.parameters(), run.clip)
    optimizer.step()
    return loss.item()


def forward(network: GNN, batch) -> Tensor:
    return network(batch.x, batch.edge_index, batch.edge_type, edge_attr=batch.edge_attr, batch=batch.batch)
