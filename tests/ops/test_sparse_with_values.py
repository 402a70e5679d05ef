import pytest
import torch

from graphprism.ops.sparse_features import sparse_transform, sparse_with_values
from graphprism.testing import tolerance


def features():
    x = torch.zeros(6, 5, dtype=torch.double)
    x[[0, 0, 2, 3, 5], [1, 4, 2, 0, 4]] = torch.arange(1.0, 6.0, dtype=torch.double)
    return x.to_sparse_csr()


def test_values_go_to_the_places_of_the_old_ones():
    x = features()
    other = sparse_with_values(x, 10 * x.values())
    assert torch.equal(other.to_dense(), 10 * x.to_dense())
    assert x.values().tolist() == [1, 2, 3, 4, 5]


def test_products_and_gradients_are_those_of_the_new_values():
    weight = torch.randn(2, 5, 3, dtype=torch.double, requires_grad=True)
    x = features()
    sparse_transform(x, weight)  # sorts, and keeps the old values
    for factor in (0.0, 2.0, -1.0):
        other = sparse_with_values(x, factor * x.values())
        expected = factor * torch.einsum("nf,rfo->nro", x.to_dense(), weight)
        out = sparse_transform(other, weight)
        torch.testing.assert_close(out, expected, **tolerance(torch.double))
        grad = torch.randn_like(out)
        found, wanted = (torch.autograd.grad(each, weight, grad)[0] for each in (out, expected))
        torch.testing.assert_close(found, wanted, **tolerance(torch.double))


def test_nothing_is_sorted_again():
    x = features()
    first, second = (sparse_with_values(x, factor * x.values()).graphprism_graph for factor in (1, 2))
    assert first.incoming is second.incoming
    assert first.outgoing is second.outgoing


def test_another_number_of_values():
    with pytest.raises(ValueError, match=r"`values` must have shape \[5\], got \[4\]"):
        sparse_with_values(features(), torch.ones(4, dtype=torch.double))
