import pytest
import torch

from graphprism.ops import RelationalAdj, relational_aggregate
from graphprism.ops.aggregate import AGGREGATE
from graphprism.testing import assert_implementations_agree
from tests.ops.cases import GRAPHS, make_adj, normal


@pytest.mark.parametrize("impl", AGGREGATE)
def test_by_hand(impl):
    adj = RelationalAdj(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0]), num_relations=2, num_nodes=3)
    out = relational_aggregate(torch.tensor([[1.0], [10.0], [100.0]]), adj, impl=impl)
    assert out.squeeze(-1).tolist() == [[0, 0], [1, 0], [1, 10]]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_every_form_equals_the_reference(name, soft):
    adj = make_adj(name, soft=soft)
    x = normal(adj.size[0], 5)
    forms = {impl: lambda *_, impl=impl: relational_aggregate(x, adj, impl=impl) for impl in AGGREGATE}
    assert_implementations_agree(forms, x, adj.edge_weight, *([adj.edge_type] if soft else []))


@pytest.mark.parametrize("impl", ["csr", "scatter"])
def test_first_and_second_derivatives(impl):
    adj = make_adj("directed")

    def run(x, weight):
        return relational_aggregate(x, adj.with_weight(weight), impl=impl)

    inputs = (normal(6, 3), normal(6))
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_a_leading_dimension_is_carried_along():
    adj, signals = make_adj("random"), normal(2, 30, 3)
    torch.testing.assert_close(relational_aggregate(signals, adj)[1], relational_aggregate(signals[1], adj))


def test_bad_input():
    with pytest.raises(ValueError, match=r"`x` must have shape \[30, F\], got \[3, 4\]"):
        relational_aggregate(normal(3, 4), make_adj("random"))
