"""Every law fails for a layer that breaks it."""

import pytest
import torch

from graphprism.testing import (
    Example,
    assert_batch_equals_parts,
    assert_deterministic,
    assert_edge_order_invariant,
    assert_equals_plain,
    assert_every_parameter_has_gradient,
    assert_gradients_correct,
    assert_implementations_agree,
    assert_permutation_equivariant,
    random_graph,
)

GRAPH = random_graph(8, 30)
EXAMPLE = Example(torch.randn(8, 2, generator=torch.Generator().manual_seed(0)).double(), GRAPH.edge_index)


def neighbours(x, edge_index, edge_type=None, edge_weight=None):
    return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])


def by_number(x, edge_index, edge_type, edge_weight):
    return neighbours(x, edge_index) * torch.arange(x.size(0))[:, None]


def by_first_edge(x, edge_index, edge_type, edge_weight):
    return neighbours(x, edge_index) + x[edge_index[0, 0]]


def by_whole_batch(x, edge_index, edge_type, edge_weight):
    return neighbours(x, edge_index) - x.mean(0)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad


def by_chance(x, edge_index, edge_type, edge_weight):
    return neighbours(x, edge_index) + torch.randn_like(x)


def test_a_sound_layer_passes():
    assert_permutation_equivariant(neighbours, EXAMPLE)
    assert_edge_order_invariant(neighbours, EXAMPLE)
    assert_batch_equals_parts(neighbours, [EXAMPLE, EXAMPLE])
    assert_equals_plain(neighbours, neighbours, EXAMPLE)
    assert_gradients_correct(neighbours, EXAMPLE)
    assert_deterministic(neighbours, EXAMPLE)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda: assert_permutation_equivariant(by_number, EXAMPLE), "must follow the numbering of nodes"),
        (lambda: assert_edge_order_invariant(by_first_edge, EXAMPLE), "must not depend on the order of edges"),
        (
            lambda: assert_batch_equals_parts(by_whole_batch, [EXAMPLE, EXAMPLE, replace_x(0.0)]),
            "the outputs of its graphs",
        ),
        (lambda: assert_equals_plain(neighbours, lambda x, e: 2 * neighbours(x, e), EXAMPLE), "give the plain layer"),
        (lambda: assert_equals_plain(double_badly, lambda x, e: 2 * x, EXAMPLE), "the plain layer's gradient"),
        (lambda: assert_deterministic(by_chance, EXAMPLE), "must give the same bits twice"),
    ],
)
def test_a_broken_layer_fails(law, message):
    with pytest.raises(AssertionError, match=message):
        law()


def replace_x(value):
    return Example(torch.full_like(EXAMPLE.x, value), EXAMPLE.edge_index)


def double_badly(x, edge_index, edge_type, edge_weight):
    return Wrong.apply(x)


def test_a_wrong_gradient_fails():
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        assert_gradients_correct(double_badly, EXAMPLE)


def test_a_dead_parameter_fails():
    class Dead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Parameter(torch.ones(())), torch.nn.Parameter(torch.ones(()))

        def forward(self, x, edge_index, edge_type, edge_weight):
            return self.used * x

    with pytest.raises(AssertionError, match="parameter `unused` must get a gradient, got none"):
        assert_every_parameter_has_gradient(Dead(), EXAMPLE)


@pytest.mark.parametrize("other", [lambda x: 2.1 * x, Wrong.apply])
def test_implementations_that_differ_fail(other):
    x = EXAMPLE.x.clone().requires_grad_()
    forms = {"reference": lambda x: 2 * x, "other": other}
    with pytest.raises(AssertionError, match="`other` must agree with `reference`"):
        assert_implementations_agree(forms, x)
