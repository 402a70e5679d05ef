import pytest
import torch

from graphprism.ops import entry_sum
from graphprism.ops.entries import BACKENDS
from graphprism.testing import assert_implementations_agree
from tests.ops.cases import GRAPHS, make_adj, normal


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_every_form_equals_the_reference(name, soft):
    adj = make_adj(name, soft=soft)
    rows = normal(adj.src.numel(), 4)
    forms = {impl: lambda *_, impl=impl: entry_sum(rows, adj, impl=impl) for impl in BACKENDS}
    assert_implementations_agree(forms, rows)


def test_by_hand_without_the_weights_of_the_graph():
    adj = make_adj("multi-edges")
    assert entry_sum(torch.ones(6, 1), adj).flatten().tolist() == [1, 5, 0]


def test_second_derivative():
    adj = make_adj("directed")
    assert torch.autograd.gradgradcheck(lambda rows: entry_sum(rows.square(), adj), normal(6, 2))


def test_bad_input():
    with pytest.raises(ValueError, match=r"`rows` must have shape \[200, F\], got \[30, 4\]"):
        entry_sum(normal(30, 4), make_adj("random"))
