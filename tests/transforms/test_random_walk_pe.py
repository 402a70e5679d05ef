import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from graphprism.testing import graph_zoo, molecules
from graphprism.transforms import RandomWalkPE

ZOO = {name: graph for name, graph in graph_zoo().items() if graph.num_nodes}


def as_data(graph):
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


@pytest.mark.parametrize("name", ZOO)
def test_powers_of_the_transition_matrix(name):
    data = as_data(ZOO[name])
    matrix = torch.zeros(data.num_nodes, data.num_nodes)
    for source, target in data.edge_index.t().tolist():
        matrix[source, target] += 1
    matrix = matrix / matrix.sum(1, keepdim=True).clamp(min=1)
    found = RandomWalkPE(5, edge_attr_name="edge_pe")(data)
    powers = [torch.linalg.matrix_power(matrix, step) for step in range(1, 6)]
    torch.testing.assert_close(found.pe, torch.stack([power.diagonal() for power in powers], 1))
    torch.testing.assert_close(found.edge_pe, torch.stack([power[tuple(data.edge_index)] for power in powers], 1))


def test_nodes_have_what_pyg_gives_them():
    for graph in molecules(5):
        data = as_data(graph)
        torch.testing.assert_close(RandomWalkPE(8)(data).pe, AddRandomWalkPE(8, "pe")(data).pe)


def test_batch_is_its_parts(monkeypatch):
    parts = [as_data(graph) for graph in molecules(9)]
    transform = RandomWalkPE(6, edge_attr_name="edge_pe")
    alone = [transform(part) for part in parts]
    for at_once in (1 << 22, 700, 1):
        monkeypatch.setattr("graphprism.transforms.random_walk_pe._AT_ONCE", at_once)
        found = transform(Batch.from_data_list(parts))
        for name in ("pe", "edge_pe"):
            torch.testing.assert_close(found[name], torch.cat([each[name] for each in alone]))


def test_numbering_of_nodes():
    data, order = as_data(molecules(1)[0]), None
    order = torch.randperm(data.num_nodes)
    moved = Data(edge_index=order.argsort()[data.edge_index], num_nodes=data.num_nodes)
    torch.testing.assert_close(RandomWalkPE(6)(moved).pe, RandomWalkPE(6)(data).pe[order])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": 0}, ValueError, "`k` must be"),
        ({"attr_name": ""}, TypeError, "`attr_name` must be the name of an attribute"),
        ({"edge_attr_name": 3}, TypeError, "`edge_attr_name` must be the name of an attribute"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        RandomWalkPE(**options)


def test_edges_are_written_on_demand_alone():
    assert "edge_pe" not in RandomWalkPE(3)(as_data(molecules(1)[0]))
