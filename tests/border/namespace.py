"""Good inputs by name, which a line of `tests.border.table` makes bad."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import MLP

import graphprism
from graphprism import analysis, datasets, io, nn, ops, splitting, testing, training, transforms
from graphprism.analysis.certificate.cycles import ergodic_graphs, find_cycle, root_nodes
from graphprism.analysis.certificate.directions import independent_pairs
from graphprism.datasets.load import packed_path
from graphprism.known import named_folder
from graphprism.ops.batched.type_rows import type_rows, type_sums
from graphprism.ops.batches import BlockDiagonal, select_graphs
from graphprism.ops.csr import csr_sum
from graphprism.training.build_model import parameters_of
from graphprism.training.optim import epoch_order
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.schedule import learning_rate
from graphprism.training.train import lockstep_key


class Message(torch.nn.Module):
    """A message function that takes edge features or none."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(8, 4)

    def forward(self, x_i: torch.Tensor, x_j: torch.Tensor, *edge: torch.Tensor) -> torch.Tensor:
        """The difference of both ends."""
        return self.lin(x_j - x_i)


def namespace() -> dict[str, Any]:
    """The names of the calls: good inputs, which a line makes bad."""
    torch.manual_seed(0)
    x, e, t = torch.randn(5, 8), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), torch.tensor([0, 1, 2, 0])
    w, s, a, node = torch.rand(4), torch.rand(4, 3), torch.rand(4, 6), torch.arange(5)

    def make_gcn() -> torch.nn.Module:
        return nn.MRSGCNConv(8, 4)

    def graph(edge_index: Any, num_nodes: Any = 5, **more: Any) -> Data:
        made = Data(edge_index=edge_index, **more)
        made.num_nodes = num_nodes
        return made

    def net() -> torch.nn.Module:
        return MLP([8, 4])

    tools = {"torch": torch, "replace": replace, "numpy": numpy, "MLP": MLP, "Data": Data, "HeteroData": HeteroData}
    modules = (graphprism, analysis, datasets, io, nn, ops, splitting, testing, training, transforms)
    set_ = datasets.molecules(12)
    inner = (
        BlockDiagonal, PreparedDataset, csr_sum, epoch_order, ergodic_graphs, find_cycle, independent_pairs,
        learning_rate, lockstep_key, named_folder, packed_path, parameters_of, root_nodes, select_graphs, type_rows,
        type_sums,
    )  # fmt: skip
    own = SimpleNamespace(
        **tools,
        inner=SimpleNamespace(**{each.__name__: each for each in inner}),
        **{module.__name__.rpartition(".")[2]: module for module in modules},
        **dict(x=x, e=e, t=t, w=w, s=s, a=a, h=torch.rand(5, 3, 2), b=torch.zeros(5, dtype=torch.long), node=node),
        ptr=torch.tensor([0, 2, 2, 4]),
        gptr=torch.tensor([0, 5]),
        mat=torch.rand(3, 8, 4),
        graph=graph,
        data=graph(e, x=x, edge_type=t),
        Message=Message,
        make_gcn=make_gcn,
        net=net,
        adj=ops.RelationalAdj(e, t, num_relations=3, num_nodes=5),
        adj_2=ops.RelationalAdj(e, t % 2, num_relations=2, num_nodes=5),
        adj_7=ops.RelationalAdj(e, t, num_relations=3, num_nodes=7),
        soft=ops.RelationalAdj(e, s, num_nodes=5),
        bipartite=ops.RelationalAdj(e, t, num_relations=3, num_nodes=(5, 6)),
        gcn=make_gcn(),
        sage=nn.MRSSAGEConv(8, 4),
        gat=nn.MRSGATConv(8, 4, heads=2),
        gat_e=nn.MRSGATConv(8, 4, edge_dim=6),
        gated=nn.MRSGatedGCNConv(8, 4),
        gated_e=nn.MRSGatedGCNConv(8, 4, edge_dim=6),
        gin=nn.MRSGINConv(net),
        mrs=nn.MRSConv(Message),
        dir_gcn=nn.DirConv(make_gcn),
        dir_sage=nn.DirConv(lambda: nn.MRSSAGEConv(8, 4)),
        gnn=nn.GNN("mrs-gcn", 8, 2, 2, in_channels=8),
        gnn_pe=nn.GNN("mrs-gcn", 8, 2, 2, in_channels=8, pe_channels=2),
        gnn_types=nn.GNN("mrs-gcn", 8, 2, 2, num_node_types=3),
        gnn_columns=nn.GNN("mrs-gcn", 8, 2, 2, num_node_types=[3, 4]),
        gnn_edges=nn.GNN("mrs-gated-gcn", 8, 2, 2, in_channels=8, num_edge_types=4),
        gnn_sum=nn.GNN("mrs-gcn", 8, 2, 2, in_channels=8, readout="sum"),
        set_=set_,
        run=training.Run(layers=2, width=8, epochs=1, batch_size=4),
    )
    return vars(own)
