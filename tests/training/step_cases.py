"""Networks, batches and losses for the tests of `CapturedStep`, and the loop that it replaces."""

import torch
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import BatchNorm, GraphNorm, LayerNorm, PairNorm, global_mean_pool

import graphprism as gp

LAYERS = {
    "gcn": lambda: gp.nn.MRSGCNConv(6, 6, num_relations=3),
    "gcn, independent": lambda: gp.nn.MRSGCNConv(6, 6, num_relations=3, start="independent"),
    "sage": lambda: gp.nn.MRSSAGEConv(6, 6, num_relations=3),
    "gat": lambda: gp.nn.MRSGATConv(6, 6, num_relations=3),
    "gin": lambda: gp.nn.MRSGINConv(torch.nn.Sequential(torch.nn.Linear(6, 6)), num_relations=3),
    "gated": lambda: gp.nn.MRSGatedGCNConv(6, 6, num_relations=3),
    "dir": lambda: gp.nn.DirConv(lambda: gp.nn.MRSGCNConv(6, 6, num_relations=3, edge_norm="dir")),
}
NORMS = {
    "none": lambda: None,
    "batch": lambda: BatchNorm(6),
    "graph": lambda: GraphNorm(6),
    "pair": lambda: PairNorm(),
    "layer of all nodes": lambda: LayerNorm(6),
}


class Network(torch.nn.Module):
    """Two layers with a norm behind each, and a readout unless it is of nodes."""

    def __init__(self, layer="gcn", norm="none", dropout=0.0, on_nodes=False):
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList(LAYERS[layer]() for _ in range(2))
        norms = [NORMS[norm]() for _ in range(2)]
        self.norms = None if norms[0] is None else torch.nn.ModuleList(norms)
        self.head, self.dropout, self.on_nodes = torch.nn.Linear(6, 1), dropout, on_nodes

    def forward(self, x, adj, batch, num_graphs):
        for number, conv in enumerate(self.convs):
            x = conv(x, adj)
            if self.norms is not None:
                norm = self.norms[number]
                x = norm(x, batch, num_graphs) if isinstance(norm, GraphNorm) else norm(x)
            x = functional.dropout(x.relu(), self.dropout, self.training)
        x = x if self.on_nodes else global_mean_pool(x, batch, num_graphs)
        return self.head(x).squeeze(1)


def absolute_errors(model, data):
    """A loss for each graph, or for each node."""
    out = model(data.x, data.adj, data.batch, data.num_graphs)
    return (out - (data.y if not model.on_nodes else data.x[:, 0])).abs()


def batches(sizes=(5, 5, 3, 5, 1, 5), seed=0, dtype=torch.double):
    """Batches of so many small graphs each, with three relations."""
    torch.manual_seed(seed)
    return [Batch.from_data_list([_graph(dtype) for _ in range(size)]) for size in sizes]


def _graph(dtype):
    nodes = int(torch.randint(3, 12, ()))
    edges = torch.randint(nodes, (2, 3 * nodes))
    x = torch.randn(nodes, 6, dtype=dtype)
    types = torch.randint(3, (edges.size(1),))
    return Data(x=x, edge_index=edges, edge_type=types, y=torch.randn(1, dtype=dtype))


def plain_losses(model, optimizer, batches, clip=None, scheduler=None, autocast=False):
    """The loop that a user would write, without padding."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        batch.adj = gp.RelationalAdj(batch.edge_index, batch.edge_type, num_relations=3, num_nodes=batch.num_nodes)
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=autocast):
            loss = absolute_errors(model, batch).float() if autocast else absolute_errors(model, batch)
        loss = loss.mean()
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.detach())
    return torch.stack(losses)
