"""`torch.jit.trace`: a traced network computes the same, also on other edges among as many nodes.

The number of nodes is a constant of the trace, as are the branches that the example takes: torch warns of both.
"""

import pytest
import torch
import torch_geometric.nn as pyg

import graphprism as gp
from graphprism.nn import CONVOLUTIONS, GNN

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]
EDGES = torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 0, 0]])
OTHER = torch.tensor([[0, 1, 2, 3, 4, 1, 6, 5, 2], [1, 2, 3, 4, 0, 0, 2, 1, 5]])


@pytest.mark.parametrize("name", ["gcn", "mrs-gcn", "mrs-sage", "mrs-gat", "mrs-gin", "mrs-gated-gcn", "mrs-dir-gcn"])
def test_traced_gnn_computes_the_same(name: str):
    model = GNN(name, 8, 3, 2, in_channels=4).eval()
    types = [edges.sum(0) % 3 for edges in (EDGES, OTHER)]
    relational = CONVOLUTIONS[name].relational
    graphs = list(zip((EDGES, OTHER), types, strict=True)) if relational else [(EDGES,), (OTHER,)]
    x = torch.rand(7, 4)
    traced = torch.jit.trace(model, (x, *graphs[0]), check_trace=False)
    for graph in graphs:
        torch.testing.assert_close(traced(x, *graph), model(x, *graph))


@pytest.mark.parametrize(
    ("network", "by"),
    [*((pyg.GCN, by) for by in ("degree", "ppr", "direction")), (pyg.GAT, "degree"), (pyg.GIN, "degree")],
)
def test_traced_converted_model_computes_the_same(network: type, by: str):
    model = gp.to_mrs(network(4, 8, 2), by).eval()
    x = torch.rand(7, 4)
    for _ in range(2):  # relations of an earlier call must not become constants of the trace
        model(x, EDGES)
    traced = torch.jit.trace(model, (x, EDGES), check_trace=False)
    for edges in (EDGES, OTHER):
        torch.testing.assert_close(traced(x, edges), model(x, edges))
