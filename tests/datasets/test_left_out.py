"""What `from_data` does not take is refused or said, never dropped without a word."""

import warnings

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

import graphprism as gp
from graphprism.datasets import from_data


def graphs(count: int = 30) -> list[Data]:
    edges = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])
    draw = torch.Generator().manual_seed(0)
    return [Data(x=torch.rand(3, 2, generator=draw), edge_index=edges, y=torch.tensor([n / 7])) for n in range(count)]


def hetero() -> HeteroData:
    data = HeteroData()
    data["user"].x = torch.rand(3, 2)
    data["item"].x = torch.rand(2, 2)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
    return data


@pytest.mark.parametrize(
    "call",
    [
        from_data,
        lambda data: from_data([data]),
        lambda data: gp.certify(data, "degree"),
        lambda data: gp.certify([data, data], "degree"),
        lambda data: gp.compare_splits(data, ["degree"]),
        lambda data: gp.advise(data),
        lambda data: gp.explain(gp.nn.GNN("mrs-gcn", 4, 2, num_layers=2, in_channels=2), data),
        lambda data: gp.loader.NeighborLoader(data, [2]),
    ],
)
def test_hetero_data_is_refused_with_a_way_out(call) -> None:
    with pytest.raises(TypeError, match=r"`data` must .*Data.*, got HeteroData: .*to_homogeneous\(\)"):
        call(hetero())


def test_from_data_refuses_a_batch_with_a_way_out() -> None:
    with pytest.raises(ValueError, match=r"got a batch of 30 graphs: `data.to_data_list\(\)`"):
        from_data(Batch.from_data_list(graphs()))


def test_from_data_takes_a_batch_with_targets_of_nodes() -> None:
    whole = Batch.from_data_list([Data(x=each.x, edge_index=each.edge_index) for each in graphs(10)])
    whole.y = torch.arange(30) % 3
    assert from_data(whole).level == "node"


def test_from_data_warns_of_types_of_edges_that_runs_do_not_read() -> None:
    given = graphs()
    for each in given:
        each.edge_type = torch.tensor([0, 1, 1, 0])
    with pytest.warns(UserWarning, match="`edge_type` is left out.*edge_attr"):
        from_data(given)


def test_from_data_says_nothing_of_types_that_a_split_wrote() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_data([gp.SplitEdges("degree")(each) for each in graphs()])


def test_from_data_warns_of_graphs_without_a_target() -> None:
    given = graphs()
    for each in given[:4]:
        each.y = torch.full((1,), float("nan"))
    with pytest.warns(UserWarning, match="4 of 30 graphs are left out: `y` is missing there"):
        assert len(from_data(given)) == 26


def test_from_data_warns_where_all_of_several_targets_are_missing() -> None:
    given = graphs()
    for number, each in enumerate(given):
        each.y = torch.tensor([[float("nan") if number % 2 else number / 7, number / 3]])
    given[5].y = torch.full((1, 2), float("nan"))
    with pytest.warns(UserWarning, match="1 of 30 graphs are left out: `y` is missing there$"):
        assert len(from_data(given)) == 29


def test_numbers_of_edges_that_no_network_reads_are_said():
    parts = graphs()
    for part in parts:
        part.edge_attr = torch.rand(4, 2)
    with pytest.warns(UserWarning, match="`edge_attr` is read by no network and no split.*whole numbers"):
        from_data(parts)
    for part in parts:
        part.edge_attr = torch.eye(3)[torch.tensor([0, 2, 1, 1])]
    with pytest.warns(UserWarning, match=r"types are `edge_attr.argmax\(dim=1\)` of these one-hot rows"):
        from_data(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in parts:
            part.edge_attr = part.edge_attr.argmax(dim=1)
        from_data(parts)
