import pytest
import torch

from graphprism.nn import CONVOLUTIONS, GNN
from graphprism.ops import RelationalAdj, relational_linear, relational_transform
from graphprism.ops.sparse_features import sparse_transform
from graphprism.testing import tolerance

EXACT = tolerance(torch.double)


def make(rows=12, columns=7, density=0.3):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(rows, columns, generator=generator, dtype=torch.double)
    return x * (torch.rand(rows, columns, generator=generator) < density)


@pytest.mark.parametrize(("rows", "density"), [(12, 0.3), (12, 0.0), (1, 1.0)])
def test_it_is_the_dense_product(rows, density):
    x, weight = make(rows, density=density), torch.randn(3, 7, 5, dtype=torch.double, requires_grad=True)
    sparse, dense = sparse_transform(x.to_sparse_csr(), weight), relational_transform(x, weight)
    torch.testing.assert_close(sparse, dense, **EXACT)
    grad = torch.randn_like(dense)
    found, expected = (torch.autograd.grad(out, weight, grad)[0] for out in (sparse, dense))
    torch.testing.assert_close(found, expected, **EXACT)


def test_a_layer_takes_sparse_features():
    x, weight = make(), torch.randn(2, 7, 5, dtype=torch.double)
    edges, types = torch.randint(12, (2, 40)), torch.randint(2, (40,))
    adj = RelationalAdj(edges, types, num_relations=2, num_nodes=12)
    torch.testing.assert_close(
        relational_linear(x.to_sparse_csr(), adj, weight), relational_linear(x, adj, weight), **EXACT
    )


@pytest.mark.parametrize("conv", [name for name, conv in CONVOLUTIONS.items() if conv.takes_sparse])
def test_a_network_takes_sparse_features(conv):
    x, edges, types = make(), torch.randint(12, (2, 40)), torch.randint(3, (40,))
    model = GNN(conv, 6, 3, 2, in_channels=7, encode=False, jk="cat").double()
    outs = [model(features, edges, types) for features in (x, x.to_sparse_csr())]
    torch.testing.assert_close(*outs, **EXACT)
    grads = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in outs]
    torch.testing.assert_close(*grads, **EXACT)
