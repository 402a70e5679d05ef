import pickle

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from graphprism.loader import NeighborLoader
from graphprism.splitting import ORDERINGS, by_attribute, by_direction, by_order, by_soft_order, only
from graphprism.testing import molecules
from graphprism.transforms import SampledGraphWarning, SplitEdges

DATA = [Data(g.x, g.edge_index, edge_attr=torch.arange(g.edge_index.size(1)) % 4) for g in molecules(5)]


def test_by_hand():
    star = Data(edge_index=torch.tensor([[0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1]]), num_nodes=3)
    assert SplitEdges("degree")(star).edge_type.tolist() == [2] * 6
    path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    assert SplitEdges("degree")(path).edge_type.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("split", [*ORDERINGS, by_order("degree") * by_attribute("edge_attr")])
def test_before_batching_is_after_batching(split):
    transform = SplitEdges(split)
    parts = Batch.from_data_list([transform(data) for data in DATA])
    assert parts.edge_type.equal(transform(Batch.from_data_list(DATA)).edge_type)


def test_nodes_of_two_types_are_not_compared():
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 3
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data["paper", "by", "author"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 1]])
    found = SplitEdges("degree")(data)
    assert found["paper", "cites", "paper"].edge_type.tolist() == [0, 1, 1, 0]
    assert found["paper", "by", "author"].edge_type.tolist() == [2, 2, 2]
    assert found["paper"].node_order.tolist() == [0, 1, 0]
    assert "node_order" not in found["author"]


def test_the_input_is_left_alone():
    SplitEdges("degree")(DATA[0])
    assert "edge_type" not in DATA[0]


def test_loads_in_worker_processes():
    transform = SplitEdges(by_order("degree", "ppr"))
    assert repr(pickle.loads(pickle.dumps(transform))) == "SplitEdges(by_order('degree', 'ppr'))"
    batch = next(iter(DataLoader([transform(data) for data in DATA], batch_size=5)))
    assert batch.edge_type.shape == (batch.num_edges,)


def test_bad_input():
    with pytest.raises(ValueError, match="`data` must have at least one edge type, got none"):
        SplitEdges("degree")(HeteroData())
    with pytest.raises(ValueError, match=r"`data.edge_index` must be given, got None"):
        SplitEdges("degree")(Data(num_nodes=3))
    with pytest.raises(ValueError, match=r"`data.edge_index` must hold numbers in \[0, 3\), got 7"):
        SplitEdges("degree")(Data(edge_index=torch.tensor([[0], [7]]), num_nodes=3))
    with pytest.raises(ValueError, match="degre"):
        SplitEdges("degre")


def sampled_batches(**options):
    graph = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4, x=torch.eye(4))
    return NeighborLoader(graph, [1], batch_size=2, **options)


def test_split_edges_warns_once_of_a_sampled_batch():
    transform = SplitEdges("degree")
    first, second = sampled_batches()
    with pytest.warns(SampledGraphWarning, match="should get the whole graph, got a sampled batch"):
        transform(first)
    transform(second)


def test_split_edges_warns_of_a_sampled_heterogeneous_batch():
    batch = HeteroData()
    batch["a"].x, batch["a"].n_id, batch["a"].input_id = torch.eye(2), torch.arange(2), torch.arange(1)
    batch["a", "to", "a"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.warns(SampledGraphWarning):
        SplitEdges("degree")(batch)


def test_split_edges_by_attributes_may_split_a_sampled_batch():
    batch = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, edge_attr=torch.tensor([1]))
    batch.n_id, batch.input_id = torch.arange(2), torch.arange(1)
    assert SplitEdges("attr(edge_attr)")(batch).edge_type is not None


@pytest.mark.parametrize("split", [by_soft_order("degree"), only(by_order("degree") * by_direction(), range(6))])
def test_nodes_of_two_types_are_not_compared_by_soft_and_restricted_splits(split):
    data = HeteroData()
    data["author"].num_nodes, data["paper"].num_nodes = 2, 3
    data["paper", "by", "author"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 1]])
    found = SplitEdges(split)(data)["paper", "by", "author"].edge_type
    assert found.tolist() == ([[0, 0, 1]] * 3 if found.dim() == 2 else [2, 2, 2])
