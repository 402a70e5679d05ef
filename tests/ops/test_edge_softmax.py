import pytest
import torch
from torch_geometric.utils import softmax

from graphprism.ops import RelationalAdj, edge_softmax
from graphprism.ops.batched.padded_adj import PaddedAdj
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


def into_one_node(*weights, dtype=torch.double):
    """Edges that all end in node 0, in the order of their senders."""
    edges = torch.stack([torch.arange(len(weights)), torch.zeros(len(weights), dtype=torch.long)])
    return RelationalAdj(edges, None, torch.tensor(weights, dtype=dtype).requires_grad_(), num_nodes=len(weights))


def as_table(adj):
    """The same edges as a table, where node 0 has them in its slots and other nodes have empty ones."""
    return PaddedAdj.build(adj.with_weight(adj.edge_weight.detach()), dtype=adj.edge_weight.dtype)


def coefficients(logit, adj, backend):
    """`edge_softmax` of edges that end in node 0 by either backend."""
    if backend == "adj":
        return edge_softmax(logit, adj)
    empty = logit.new_full((logit.size(0) * (logit.size(0) - 1), logit.size(1)), float("nan"))
    return edge_softmax(torch.cat([logit, empty]), as_table(adj))[: logit.size(0)]


backends = pytest.mark.parametrize("backend", ["adj", "table"])


@backends
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ignored", [40.0, 1000.0, -1000.0])
def test_edge_softmax_ignores_edges_of_weight_zero(backend, ignored, dtype):
    adj = into_one_node(0.0, 1.0, 1.0, dtype=dtype)
    logit = torch.tensor([[ignored], [0.0], [0.0]], dtype=dtype, requires_grad=True)
    share = coefficients(logit, adj, backend)
    assert share.flatten().tolist() == [0, 0.5, 0.5]
    leaves = (logit, adj.edge_weight) if backend == "adj" else (logit,)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(share[1].sum(), leaves))


@backends
def test_edge_softmax_keeps_small_sums_exact(backend):
    adj = into_one_node(1e-20, 3e-20)
    share = coefficients(torch.zeros(2, 1, dtype=torch.double), adj, backend)
    torch.testing.assert_close(share.flatten(), torch.tensor([0.25, 0.75], dtype=torch.double))


@backends
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_edge_softmax_of_no_positive_weight_is_zero_with_zero_gradient(backend, size):
    adj = into_one_node(0.0, 0.0)
    logit = torch.tensor([[size], [-size]], dtype=torch.double, requires_grad=True)
    share = coefficients(logit, adj, backend)
    assert share.tolist() == [[0], [0]]
    leaves = (logit, adj.edge_weight) if backend == "adj" else (logit,)
    assert all(not grad.any() for grad in torch.autograd.grad(share[0].sum(), leaves))


@backends
def test_edge_softmax_rejects_negative_weights(backend):
    adj = into_one_node(1.0, -0.5)
    logit = torch.zeros(2, 1, dtype=torch.double)
    with pytest.raises(ValueError, match=r"edge weights must not be negative in a softmax, got -0\.5"):
        coefficients(logit, adj, backend)
    if backend == "adj":  # transformed code does not look at values
        each = torch.func.vmap(lambda logit: edge_softmax(logit, adj))(logit[None])
        assert each.isnan().all()


def test_edge_softmax_shows_nan_and_takes_masks():
    adj = into_one_node(1.0, 1.0)
    assert edge_softmax(torch.tensor([[float("nan")], [0.0]]), adj).isnan().all()
    assert edge_softmax(torch.tensor([[-torch.inf], [0.0]]), adj).tolist() == [[0], [1]]
    assert edge_softmax(torch.tensor([[-torch.inf], [-torch.inf]]), adj).tolist() == [[0], [0]]


def test_edge_softmax_derivatives_with_a_weight_of_zero():
    adj = into_one_node(0.3, 0.0, 2.0, 1.0)
    # the entry of weight zero has the largest logit
    logit = (normal(4, 2).detach() + torch.tensor([[0.0], [3.0], [0.0], [0.0]])).requires_grad_()

    def run(logit, weight):
        # gradcheck would step to a negative weight: the weight of zero is held here and differentiated below
        scale = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.double)
        return edge_softmax(logit, adj.with_weight(scale * weight))

    assert torch.autograd.gradcheck(run, (logit, adj.edge_weight))
    mass = adj.edge_weight[:, None] * logit.exp()
    expected = torch.autograd.grad((mass / mass.sum(0)).square().sum(), (logit, adj.edge_weight))
    ours = torch.autograd.grad(edge_softmax(logit, adj).square().sum(), (logit, adj.edge_weight))
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_edge_softmax_of_a_table_counts_its_weights():
    adj, logit = into_one_node(1.0, 2.0, 0.5), normal(3, 2)
    torch.testing.assert_close(coefficients(logit, adj, "table"), coefficients(logit, adj, "adj"))
    table = as_table(adj)
    full = torch.cat([logit.detach(), logit.new_zeros(6, 2)]).requires_grad_()

    def run(logit, entry_weights):
        weights = torch.cat([entry_weights, entry_weights.new_zeros(2, 3)])
        weights = torch.cat([weights, table.weights[:, 3:]], dim=1)
        return edge_softmax(logit, PaddedAdj(table.numbers, weights, 1))

    assert torch.autograd.gradcheck(run, (full, table.weights[:1, :3].clone().requires_grad_()))
