"""Edges in lists, tuples and dictionaries of a call."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import graphprism as gp
from graphprism.splitting import Graph, resolve_split
from tests.convert.test_convolutions import relative_error
from tests.convert.test_models import OUT, F, N, features
from tests.convert.test_mrs_model import part

X, EDGES, _, _ = features("undirected")
GRAPHS = [(X, EDGES), (X.flip(0)[:-2], EDGES[:, (EDGES < N - 2).all(0)]), (2 * X, EDGES[:, ::2])]
DATA = [Data(x=x, edge_index=edges) for x, edges in GRAPHS]
CALLS = {
    "tuple": lambda layer, graph: [layer(*graph)],
    "dictionary": lambda layer, batch: [layer(batch["x"], batch["edge_index"])],
    "lists": lambda layer, xs, edges: [layer(x, each) for x, each in zip(xs, edges, strict=True)],
    "pairs": lambda layer, graphs: [layer(x, each) for x, each in graphs],
    "data": lambda layer, snapshots: [layer(each.x, each.edge_index) for each in snapshots],
}
ARGUMENTS = {
    "tuple": (GRAPHS[0],),
    "dictionary": ({"x": X, "edge_index": EDGES},),
    "lists": ([x for x, _ in GRAPHS], [edges for _, edges in GRAPHS]),
    "pairs": (GRAPHS,),
    "data": (DATA,),
}


class Model(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.conv, self.name = GCNConv(F, OUT), name

    def forward(self, first, second=None):
        out = CALLS[self.name](self.conv, first, *([] if second is None else [second]))
        return torch.stack([each.mean(0) for each in out])


@pytest.mark.parametrize(
    ("name", "split"), [*((name, "degree") for name in CALLS), ("dictionary", "features"), ("data", "features")]
)
def test_every_set_of_edges_is_split_by_itself(name, split):
    model = gp.to_mrs(Model(name), split)
    part(model)
    for _ in range(3):  # prepared from the second call on
        out = model(*ARGUMENTS[name])
        for (x, edges), row in zip(GRAPHS, out, strict=False):
            types = resolve_split(split)(Data(x=x, edge_index=edges, num_nodes=len(x)))
            assert relative_error(row, model.model.conv(x, edges, edge_type=types).mean(0)) < 1e-5


def test_snapshots_bring_their_types_or_get_them_by_name():
    model, split = gp.to_mrs(Model("data")), gp.SplitEdges("degree")
    part(model)
    out = model(DATA)
    assert torch.equal(model([split(data.clone()) for data in DATA]), out)
    changed = resolve_split("degree")(Graph(EDGES, N)).flip(0)
    given = model(DATA, edge_type={"first.0.edge_index": changed})
    assert relative_error(given[0], out[0]) > 1e-3
    assert torch.equal(given[1:], out[1:])
