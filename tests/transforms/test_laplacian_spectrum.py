import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import get_laplacian, to_dense_adj

from graphprism.testing import molecule, molecules
from graphprism.transforms import LaplacianSpectrum


def make(graph):
    return Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)


def test_spectrum_has_the_lowest_eigenvectors_with_the_constant_one():
    data = LaplacianSpectrum(k=5)(make(molecule(3)))
    index, weight = get_laplacian(data.edge_index, num_nodes=data.num_nodes, dtype=torch.double)
    laplacian = to_dense_adj(index, edge_attr=weight, max_num_nodes=data.num_nodes)[0]
    vectors, values = data.pe.double().unbind(-1)
    torch.testing.assert_close(values[0], torch.linalg.eigvalsh(laplacian)[:5], atol=1e-5, rtol=0)
    assert (values == values[0]).all()
    torch.testing.assert_close(laplacian @ vectors, vectors * values, atol=1e-5, rtol=0)
    torch.testing.assert_close(vectors.norm(dim=0), torch.ones(5).double(), atol=1e-5, rtol=0)
    assert vectors[:, 0].abs().std() < 1e-6


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 5])
def test_spectrum_of_small_graphs_is_filled_with_negative_eigenvalues(num_nodes):
    edges = torch.stack([torch.arange(num_nodes), torch.arange(num_nodes).roll(1)])
    pe = LaplacianSpectrum(8)(Data(edge_index=edges, num_nodes=num_nodes)).pe
    assert pe.shape == (num_nodes, 8, 2)
    assert (pe[:, :num_nodes, 1] >= 0).all()
    assert (pe[:, num_nodes:] == torch.tensor([0.0, -1.0])).all()


def test_spectrum_of_a_batch_is_that_of_its_graphs():
    data = [make(graph) for graph in molecules(4)]
    parts = torch.cat([LaplacianSpectrum(8)(part).pe for part in data])
    assert torch.equal(LaplacianSpectrum(8)(Batch.from_data_list(data)).pe, parts)


def test_spectrum_rejects_too_many_nodes():
    with pytest.raises(ValueError, match="a graph must have at most 10000 nodes for its eigenvectors, got 10001"):
        LaplacianSpectrum(8)(Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=10_001))
