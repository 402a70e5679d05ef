"""GCN and MRS-GCN on molecules in plain PyG: its loader, layers and readout."""

from __future__ import annotations

import torch
from published import PublishedConv, PublishedGCN
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.splitting import by_order
from graphprism.training import Run


class PygGCN(torch.nn.Module):
    """Embedding, GCN layers without self-loops, sum over nodes, a linear map.

    Every layer normalises the graph, as `GCNConv` comes; with ``prepared`` graphs bring the norm as ``edge_weight``.
    """

    def __init__(self, width: int, layers: int, num_types: int, prepared: bool = False) -> None:
        super().__init__()
        self.prepared = prepared
        self.encoder = torch.nn.Embedding(num_types, width)
        self.convs = torch.nn.ModuleList(
            GCNConv(width, width, add_self_loops=False, normalize=not prepared) for _ in range(layers)
        )
        self.head = torch.nn.Linear(width, 1)

    def forward(self, data: Batch) -> Tensor:
        h, weight = self.encoder(data.x.view(-1)), data.edge_weight if self.prepared else None
        for conv in self.convs:
            h = conv(h, data.edge_index, weight).relu()
        return self.head(global_add_pool(h, data.batch))


class PygMRSGCN(torch.nn.Module):
    """The same with one `GCNConv` for each relation; the edges are split and normalised before training."""

    def __init__(self, width: int, layers: int, num_types: int) -> None:
        super().__init__()
        self.encoder = torch.nn.Embedding(num_types, width)
        self.convs = torch.nn.ModuleList(
            torch.nn.ModuleList(GCNConv(width, width, normalize=False, bias=r == 0) for r in range(3))
            for _ in range(layers)
        )
        self.head = torch.nn.Linear(width, 1)

    def forward(self, data: Batch) -> Tensor:
        h = self.encoder(data.x.view(-1))
        masks = [data.edge_type == r for r in range(3)]
        parts = [(data.edge_index[:, mask], data.edge_weight[mask]) for mask in masks]
        for relations in self.convs:
            h = sum(conv(h, *part) for conv, part in zip(relations, parts, strict=True)).relu()
        return self.head(global_add_pool(h, data.batch))


def copy_weights(ours: GNN, theirs: PygGCN | PygMRSGCN | PublishedGCN) -> None:
    """Gives another network the weights of ours."""
    with torch.no_grad():
        theirs.encoder.weight.copy_(ours.encoder.weight)
        for mine, other in zip(ours.convs, theirs.convs, strict=True):
            if isinstance(other, PublishedConv):
                other.copy(mine)
                continue
            relations = other if isinstance(other, torch.nn.ModuleList) else [other]
            for conv, weight in zip(relations, mine.lin.weight, strict=True):
                conv.lin.weight.copy_(weight.t())
            relations[0].bias.copy_(mine.bias)
        theirs.head.load_state_dict(ours.head.state_dict())


def weights_of(network: torch.nn.Module) -> list[Tensor]:
    """All weights in one order and one form, whichever network it is."""
    convs = []
    for conv in network.convs:
        relations = conv if isinstance(conv, torch.nn.ModuleList) else [conv]
        ours = hasattr(conv, "num_relations")
        weight = conv.lin.weight if ours else torch.stack([each.lin.weight.t() for each in relations])
        convs += [weight, conv.bias if ours else relations[0].bias]
    return [network.encoder.weight, *convs, *network.head.parameters()]


def pyg_graphs(
    dataset: PackedDataset,
    chosen: Tensor,
    relations: bool = False,
    norm: bool = False,
    dtype: torch.dtype = torch.float32,
) -> list[Data]:
    """Graphs one by one, as PyG's loader takes them; split by degree and normalised beforehand where asked for."""
    split, graphs = by_order("degree"), [dataset.graph(number) for number in chosen.tolist()]
    for graph in graphs:
        graph.y = graph.y.to(dtype)
        if relations:
            graph.edge_type = split(graph)
        if norm:
            weighted = gcn_norm(graph.edge_index, None, graph.num_nodes, add_self_loops=False, dtype=dtype)
            graph.edge_weight = weighted[1]
    return graphs


class PygTrainer:
    """The usual loop: PyG's loader shuffles and makes batches, one step on each."""

    def __init__(self, network: torch.nn.Module, graphs: list[Data], batch_size: int, lr: float, device: torch.device):
        self.network, self.device = network.to(device), device
        self.loader = DataLoader(graphs, batch_size=batch_size, shuffle=True)
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=0.0)
        self.loaded = self.load()

    def load(self) -> list[Batch]:
        """The batches of an epoch, on the device."""
        return [batch.to(self.device) for batch in self.loader]

    def train_epoch(self) -> float:
        """One epoch with loading; returns the mean loss of its steps, as a training loop does."""
        return self._mean([self.step(batch.to(self.device)) for batch in self.loader])

    def train_loaded(self) -> float:
        """One epoch over batches preloaded on the device."""
        return self._mean([self.step(batch) for batch in self.loaded])

    def step(self, batch: Batch) -> Tensor:
        """Forward, L1 loss, backward, clipping, AdamW."""
        self.optimizer.zero_grad()
        loss = torch.nn.functional.l1_loss(self.network(batch), batch.y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    @staticmethod
    def _mean(losses: list[Tensor]) -> float:
        return float(torch.stack(losses).mean())


def pyg_trainers(
    ours: GNN, run: Run, dataset: PackedDataset, device: torch.device, dtype: torch.dtype = torch.float32
) -> dict[str, PygTrainer]:
    """PyG's networks for the model of a run with the weights of ours, by name, on the training graphs."""
    sizes = ours.hidden_channels, run.layers, dataset.node_types[0]
    networks: dict[str, PygGCN | PygMRSGCN] = {"PyG": PygGCN(*sizes), "PyG, norm prepared": PygGCN(*sizes, True)}
    if run.model == "mrs-gcn":
        networks = {"PyG": PygMRSGCN(*sizes)}
    found = {}
    for name, network in networks.items():
        copy_weights(ours, network)
        relations = isinstance(network, PygMRSGCN)
        norm = relations or network.prepared
        graphs = pyg_graphs(dataset, dataset.subset("train"), relations, norm, dtype)
        found[name] = PygTrainer(network.to(dtype), graphs, run.batch_size, run.lr, device)
    return found
