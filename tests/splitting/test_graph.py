"""Reading a graph: what is accepted, and what the errors say."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from graphprism.splitting import Graph, by_order, orderings
from graphprism.splitting.graph import parts_of

from .zoo import directed

PAIR = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("edge_index", "error", "message"),
    [
        (PAIR.t().reshape(4, 1), ValueError, r"`edge_index` must have shape \[2, E\], got \[4, 1\]"),
        (PAIR[0], ValueError, r"`edge_index` must have shape \[2, E\], got \[2\]"),
        (PAIR.float(), TypeError, "`edge_index` must hold integers, got torch.float32"),
        (PAIR - 1, ValueError, r"`edge_index` must hold numbers in \[0, 3\), got -1"),
        (PAIR + 1, ValueError, r"`edge_index` must hold numbers in \[0, 3\), got 3"),
        ([[0], [1]], TypeError, "`edge_index` must be a torch.Tensor, got list"),
        (None, TypeError, "`edge_index` must be a torch.Tensor, got NoneType"),
    ],
)
def test_bad_edges(edge_index, error, message):
    with pytest.raises(error, match=message):
        by_order("degree")(Graph(edge_index, 3))


@pytest.mark.parametrize(
    ("num_nodes", "error", "message"),
    [
        (None, TypeError, "`num_nodes` must be a whole number, got None"),
        (2.5, TypeError, "`num_nodes` must be a whole number, got 2.5"),
        (-1, ValueError, "`num_nodes` must be at least 0, got -1"),
    ],
)
def test_bad_number_of_nodes(num_nodes, error, message):
    with pytest.raises(error, match=message):
        orderings.degree(Graph(PAIR, num_nodes))


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (torch.zeros(2).long(), ValueError, r"`batch` must have shape \[3\], got \[2\]"),
        (torch.zeros(3), TypeError, "`batch` must hold integers, got torch.float32"),
        ([0, 0, 0], TypeError, "`batch` must be a torch.Tensor, got list"),
        (torch.tensor([0, 0, 1]), ValueError, "join two nodes of one graph of the batch, got an edge from 1 to 2"),
    ],
)
def test_bad_batch(batch, error, message):
    with pytest.raises(error, match=message):
        orderings.random(Graph(PAIR, 3, batch=batch))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_edges_of_small_integer_types(dtype):
    graph = directed([(0, 199), (199, 0), (0, 150)], 200)
    small = Graph(graph.edge_index.to(dtype), 200)
    for name in ("degree", "core", "random"):
        assert by_order(name)(small).tolist() == by_order(name)(graph).tolist()


def test_batch_of_any_labels_in_any_order():
    graph = directed([(0, 2), (1, 3)], 5, batch=torch.tensor([9, -4, 9, -4, 7]))
    parts = parts_of(graph)
    assert parts.local().tolist() == [0, 0, 1, 1, 0]
    assert parts.sizes().tolist() == [2, 2, 2, 2, 1]
    assert parts.maximum(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [3, 4, 3, 4, 5]
    assert parts.rank(torch.tensor([5, 8, 4, 9, 0])).tolist() == [1, 0, 0, 1, 0]


def test_data_and_batch_of_pyg_are_graphs():
    first = Data(x=torch.rand(3, 2), edge_index=PAIR)
    second = Data(x=torch.rand(2, 2), edge_index=torch.tensor([[1], [0]]))
    together = Batch.from_data_list([first, second])
    for name in ("degree", "random", "features", "bfs"):
        parts = torch.cat([by_order(name)(first), by_order(name)(second)])
        assert by_order(name)(together).tolist() == parts.tolist()
    with pytest.raises(TypeError, match=r"`edge_index` must be a torch.Tensor, got NoneType"):
        by_order("degree")(Data(x=torch.rand(3, 2)))


def test_no_edges():
    assert by_order("degree", "ppr")(directed([], 3)).shape == (0,)
