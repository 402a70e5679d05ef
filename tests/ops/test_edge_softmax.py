import torch
from torch_geometric.utils import softmax

from graphprism.ops import edge_softmax
from graphprism.testing import tolerance
from tests.ops.cases import make_adj, normal


def test_equals_pyg_without_weights():
    adj = make_adj("random").with_weight(None)
    logit = normal(200, 2)
    expected = softmax(logit, adj.dst, num_nodes=30)
    torch.testing.assert_close(edge_softmax(logit, adj), expected, **tolerance(logit.dtype))


def test_an_edge_of_weight_two_counts_as_two_edges():
    adj = make_adj("directed")
    logit = normal(6, 1)
    twice = adj.with_weight(torch.tensor([1.0, 1, 1, 1, 2, 1], dtype=torch.double))
    alpha = edge_softmax(logit, twice)
    # edges 4 and 5 both end in node 4
    mass = logit.exp()[4:, 0] * torch.tensor([2.0, 1.0])
    torch.testing.assert_close(alpha[4:, 0], mass / mass.sum(), **tolerance(logit.dtype))


def test_large_logits_do_not_overflow():
    adj = make_adj("directed").with_weight(None)
    assert edge_softmax(torch.full((6, 1), 1e4), adj).isfinite().all()


def test_derivatives():
    adj = make_adj("directed")
    inputs = (normal(6, 2), normal(6).detach().abs().requires_grad_())
    assert torch.autograd.gradcheck(lambda logit, weight: edge_softmax(logit, adj.with_weight(weight)), inputs)
