"""A training step on molecules: 8 layers, half a million parameters, 32 graphs, forward, backward and AdamW."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import torch
from layer_contenders import published
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import degree

from graphprism.nn import GNN
from graphprism.ops import RelationalAdj
from graphprism.ops.batches import select_graphs
from graphprism.splitting import by_order
from graphprism.testing import molecules

BATCH, NUM_BATCHES, LAYERS = 32, 20, 8


class Published(torch.nn.Module):
    """The network of the paper's code: it normalises, orders and splits in every layer of every step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.model = GNN("mrs-gcn", width, 1, LAYERS, num_node_types=28, readout="sum")

    def forward(self, data: Data) -> Tensor:
        h = self.model.encoder(data.x.view(-1))
        for conv in self.model.convs:
            edge_index, weight = gcn_norm(data.edge_index, None, data.num_nodes, add_self_loops=False)
            order = degree(edge_index[0], data.num_nodes, dtype=torch.long)
            source, target = order[edge_index[0]], order[edge_index[1]]
            types = torch.where(source < target, 0, torch.where(source > target, 1, 2))
            adj = RelationalAdj(edge_index, types, weight, num_relations=3, num_nodes=data.num_nodes)
            h = (published(h, adj, conv.lin.weight) + conv.bias).relu()
        return self.model.head(SumAggregation()(h, data.batch))


def make_steps(device: torch.device) -> dict[str, Callable[[], Tensor]]:
    """Training steps by name, each with its own model, over the same batches in turns."""
    graphs = molecules(BATCH * NUM_BATCHES)
    data = [Data(g.x, g.edge_index, edge_type=by_order("degree")(g), y=g.x.float().mean()) for g in graphs]
    batches = [Batch.from_data_list(data[i : i + BATCH]).to(device) for i in range(0, len(data), BATCH)]
    whole = Batch.from_data_list(data).to(device)
    everything = RelationalAdj(whole.edge_index, whole.edge_type, num_relations=3, num_nodes=whole.num_nodes)
    everything = everything.normalized("sym", torch.float32)
    chosen = [torch.arange(i, i + BATCH, device=device) for i in range(0, len(data), BATCH)]
    gcn = GNN("gcn", 247, 1, LAYERS, num_node_types=28, readout="sum").to(device)
    once = GNN(
        lambda c: GCNConv(c, c, add_self_loops=False, normalize=False), 247, 1, LAYERS, num_node_types=28, readout="sum"
    ).to(device)
    mrs, prepared = (GNN("mrs-gcn", 143, 1, LAYERS, num_node_types=28, readout="sum").to(device) for _ in range(2))
    slow = Published(143).to(device)
    assert sum(p.numel() for p in mrs.parameters()) <= sum(p.numel() for p in gcn.parameters())

    def prepared_forward(batch: Data, number: int) -> Tensor:
        return prepared(batch.x, select_graphs(everything, whole.ptr, chosen[number]), batch=batch.batch)

    return {
        "graphprism": step(mrs, batches, lambda b, _: mrs(b.x, b.edge_index, b.edge_type, batch=b.batch)),
        "graphprism, data set prepared": step(prepared, batches, prepared_forward),
        "PyG GCNConv": step(gcn, batches, lambda b, _: gcn(b.x, b.edge_index, batch=b.batch)),
        "PyG GCNConv, no normalisation": step(once, batches, lambda b, _: once(b.x, b.edge_index, batch=b.batch)),
        "published": step(slow, batches, lambda b, _: slow(b)),
    }


def step(model: torch.nn.Module, batches: list[Data], forward: Callable[[Data, int], Tensor]) -> Callable[[], Tensor]:
    """One step on the next batch: forward, L1 loss, backward, clipping, AdamW."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.0)
    turn = cycle(range(len(batches)))

    def run() -> Tensor:
        number = next(turn)
        batch = batches[number]
        optimiser.zero_grad()
        loss = torch.nn.functional.l1_loss(forward(batch, number).view(-1), batch.y.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return loss

    return run
