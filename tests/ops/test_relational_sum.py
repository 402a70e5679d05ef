import pytest
import torch

from graphprism.ops import RelationalAdj, relational_sum
from graphprism.ops.aggregate import SUM
from graphprism.testing import assert_implementations_agree
from tests.ops.cases import GRAPHS, make_adj, normal


@pytest.mark.parametrize("impl", SUM)
def test_by_hand(impl):
    adj = RelationalAdj(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0]), num_relations=2, num_nodes=3)
    h = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])[..., None]  # (node, relation, channel)
    assert relational_sum(h, adj, impl=impl).flatten().tolist() == [0, 1, 1 + 20]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_every_form_equals_the_reference(name, soft):
    adj = make_adj(name, soft=soft)
    h = normal(adj.size[0], 3, 5)
    forms = {impl: lambda *_, impl=impl: relational_sum(h, adj, impl=impl) for impl in SUM}
    assert_implementations_agree(forms, h, adj.edge_weight, *([adj.edge_type] if soft else []))


@pytest.mark.parametrize("impl", ["csr", "scatter"])
def test_first_and_second_derivatives(impl):
    adj = make_adj("directed")

    def run(h, weight):
        return relational_sum(h, adj, weight, impl=impl)

    inputs = (normal(6, 3, 2), normal(6))
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_heads_are_summed_apart():
    adj = make_adj("random")
    h, weight = normal(30, 3, 2, 4), normal(200, 2)
    out = relational_sum(h, adj, weight)
    assert out.shape == (30, 2, 4)
    torch.testing.assert_close(out[:, 1], relational_sum(h[:, :, 1], adj, weight[:, 1]))


def test_bad_input():
    with pytest.raises(ValueError, match=r"`h` must have shape \[30, 3, F\], got \[30, 2, 4\]"):
        relational_sum(normal(30, 2, 4), make_adj("random"))
    with pytest.raises(ValueError, match=r"`weight` must have shape \[200\], got \[199\]"):
        relational_sum(normal(30, 3, 4), make_adj("random"), normal(199))
