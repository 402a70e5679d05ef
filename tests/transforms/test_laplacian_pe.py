import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import get_laplacian, to_dense_adj

from graphprism.testing import molecule, molecules
from graphprism.transforms import LaplacianPE


def make(graph):
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def test_columns_are_the_slowest_eigenvectors_but_the_first():
    data = LaplacianPE(k=5)(make(molecule(3)))
    index, weight = get_laplacian(data.edge_index, normalization="sym", num_nodes=data.num_nodes, dtype=torch.double)
    laplacian = to_dense_adj(index, edge_attr=weight, max_num_nodes=data.num_nodes)[0]
    values = torch.linalg.eigvalsh(laplacian)[1:6]
    pe = data.pe.double()
    torch.testing.assert_close(laplacian @ pe, pe * values, atol=1e-5, rtol=0)
    torch.testing.assert_close(pe.norm(dim=0), torch.ones(5).double(), atol=1e-5, rtol=0)


def test_follows_the_numbering_of_nodes():
    # legs of one, two and four nodes at node 2: a tree without symmetry, whose eigenvalues are single
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 2], [1, 2, 3, 4, 5, 6, 7]])
    edges = torch.cat([edges, edges.flip(0)], 1)
    number = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    pe, renumbered = (LaplacianPE(4)(Data(edge_index=e, num_nodes=8)).pe for e in (edges, number[edges]))
    torch.testing.assert_close(renumbered[number], pe, atol=1e-5, rtol=0)


def test_signs_point_to_the_positive_skew_or_to_the_first_of_the_largest_entries():
    for graph in molecules(10):
        pe = LaplacianPE(8)(make(graph)).pe.double()
        skew = pe.pow(3).sum(0)
        assert (skew[skew.abs() > 1e-5] > 0).all()
    path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    slow = LaplacianPE(1)(path).pe[:, 0]  # (1, 0, -1) / sqrt(2) up to its sign: no skew
    torch.testing.assert_close(slow, torch.tensor([0.5**0.5, 0, -(0.5**0.5)]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 5])
def test_small_graphs_are_filled_with_zeros(num_nodes):
    edges = torch.stack([torch.arange(num_nodes), torch.arange(num_nodes).roll(1)])
    pe = LaplacianPE(8)(Data(edge_index=edges, num_nodes=num_nodes)).pe
    assert pe.shape == (num_nodes, 8)
    assert not pe[:, max(0, num_nodes - 1) :].any()


def test_before_batching_is_after_batching():
    data = [make(graph) for graph in molecules(4)]
    parts = torch.cat([LaplacianPE(8)(part).pe for part in data])
    assert torch.equal(LaplacianPE(8)(Batch.from_data_list(data)).pe, parts)


def test_same_bits_twice():
    data = make(molecule(1))
    assert torch.equal(LaplacianPE(8)(data).pe, LaplacianPE(8)(data).pe)


def test_bad_input():
    with pytest.raises(ValueError, match="`k` must be at least 1, got 0"):
        LaplacianPE(0)
    with pytest.raises(ValueError, match="at most 10000 nodes for its eigenvectors, got 20000"):
        LaplacianPE()(Data(edge_index=torch.zeros(2, 1, dtype=torch.long), num_nodes=20_000))
