from dataclasses import replace

import pytest
import torch

from graphprism.ops import relational_linear
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import Columns
from graphprism.ops.batched.relational_stack import BACKENDS, relational_stack
from tests.ops.cases import GRAPHS, normal
from tests.ops.tables import both, both_of, repeated
from tests.pairwise import all_pairs


def make_layers(count, channels=5, num_relations=3, *front):
    weights = [normal(*front, num_relations, channels, channels, seed=seed) for seed in range(count)]
    return weights, [normal(*front, channels, seed=10 + seed) for seed in range(count)]


def one_after_another(x, adj, weights, biases, residual):
    """The formula on a `RelationalAdj`."""
    states = []
    for weight, bias in zip(weights, biases, strict=True):
        new = torch.relu(relational_linear(x, adj, weight) + bias)
        x = x + new if residual else new
        states.append(x)
    return states


@pytest.mark.parametrize("impl", BACKENDS)
def test_by_hand(impl):
    # one node with a loop of weight one: what comes out is a chain of numbers
    _, table = both_of("one-loop", num_relations=1)
    weights = [torch.tensor([[[value]]], dtype=torch.float64) for value in (2.0, -1.0, 3.0)]
    biases = [torch.tensor([value], dtype=torch.float64) for value in (1.0, 8.0, 0.0)]
    x = torch.tensor([[2.0]], dtype=torch.float64)
    for residual, expected in ((False, [5, 3, 9]), (True, [7, 8, 32])):
        assert [state.item() for state in relational_stack(x, table, weights, biases, residual, impl=impl)] == expected
    assert relational_stack(-x, table, weights[:1], biases[:1], impl=impl)[0].item() == 0


@all_pairs(name=[*GRAPHS], used=[[2], [0, 1, 2], [1], [0, 2]], impl=[*BACKENDS], residual=[False, True])
def test_equals_one_layer_after_another(name, impl, residual, used):
    adj, table = both_of(name, "sym")
    x, (weights, biases) = normal(adj.size[0], 5), make_layers(3)
    theirs = one_after_another(x, adj, weights, biases, residual)
    ours = relational_stack(x, table, weights, biases, residual, impl=impl)
    torch.testing.assert_close(list(ours), theirs)
    reached = [x, *weights[: max(used) + 1], *biases[: max(used) + 1]]
    grads = [
        torch.autograd.grad(sum((out[each] * (each + 1)).square().sum() for each in used), reached)
        for out in (ours, theirs)
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("used", [[2], [0, 2]], ids=str)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_known_of_active_pairs_changes_nothing(name, residual, used):
    _, table = both_of(name, "sym")
    x, (weights, biases) = normal(table.size[0], 5), make_layers(3)
    leaves, found = [x, *weights, *biases], []
    for known in (table, replace(table, active=active_tiles(table))):
        out = relational_stack(x, known, weights, biases, residual)
        # a gradient that does not vanish where a ReLU is closed
        found.append([*out, *torch.autograd.grad(sum(out[each].exp().sum() for each in used), leaves)])
    torch.testing.assert_close(*found)


def active_tiles(table):
    sends = torch.zeros(table.size[0], 3, dtype=torch.bool)
    columns = Columns(table.numbers, table.weights)
    for relation in range(3):
        sends[:, relation] = ((columns.sent_weight != 0) & (columns.sent_relation == relation)).any(1)
    tiles = [part.any(0).int() @ torch.tensor([1, 2, 4], dtype=torch.int32) for part in sends.split(64) if len(part)]
    return torch.tensor(tiles, dtype=torch.int32)


@pytest.mark.parametrize("num_relations", [1, 3])
@pytest.mark.parametrize("residual", [False, True])
def test_many_runs_at_once_equal_one_by_one(residual, num_relations):
    _, table = both(2, num_relations=num_relations)
    x, (weights, biases) = normal(3, table.size[0], 5, seed=20), make_layers(2, 5, num_relations, 3)
    numbers, values = repeated(table, 3)
    values[1] /= 2  # runs differ in their graphs

    def run(x, numbers, values, first, second, *biases):
        return relational_stack(x, PaddedAdj(numbers, values, num_relations, "sym"), [first, second], biases, residual)

    inputs = [x, numbers, values, *weights, *biases]
    ours = torch.vmap(run)(*inputs)
    theirs = [torch.stack(each) for each in zip(*(run(*(t[k] for t in inputs)) for k in range(3)), strict=True)]
    torch.testing.assert_close(list(ours), theirs)
    leaves = [x, *weights, *biases]
    grads = [torch.autograd.grad(out[0].square().sum() + out[1].sum(), leaves) for out in (ours, theirs)]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("impl", BACKENDS)
def test_gradients(impl, residual):
    _, table = both_of("self-loops", "sym")
    weights, biases = make_layers(2, 2)

    def run(x, first, second, *biases):
        return relational_stack(x, table, [first, second], biases, residual, impl=impl)

    assert torch.autograd.gradcheck(run, (normal(3, 2), *weights, *biases))


@pytest.mark.parametrize("impl", BACKENDS)
def test_autocast_computes_in_low_precision(impl):
    adj, table = both(2)
    x, (weights, biases) = normal(adj.size[0], 8, dtype=torch.float32), make_layers(3, 8)
    weights, biases = ([each.detach().float().requires_grad_() for each in part] for part in (weights, biases))
    exact = relational_stack(x, table, weights, biases, impl=impl)
    with torch.autocast("cpu", torch.bfloat16):
        out = relational_stack(x, table, weights, biases, impl=impl)
        assert torch.is_autocast_enabled("cpu")
    assert {state.dtype for state in out} == {torch.bfloat16}
    torch.testing.assert_close(out[-1].float(), exact[-1], rtol=5e-2, atol=5e-2)
    assert not out[-1].float().equal(exact[-1])
    leaves = [x, *weights, *biases]
    found, expected = (torch.autograd.grad(each[-1].float().sum(), leaves) for each in (out, exact))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), rtol=0.1, atol=0.1)


def test_bad_input():
    _, table = both(1)
    x, (weights, biases) = normal(table.size[0], 5), make_layers(2)
    for one, other in (([], []), (weights, biases[:1])):
        message = f"`weights` must be as many as `biases`, one at least, got {len(one)} and {len(other)}"
        with pytest.raises(ValueError, match=message):
            relational_stack(x, table, one, other)
    with pytest.raises(ValueError, match=r"`weights` must have shape \[3, 5, 5\], got \[1, 5, 5\]"):
        relational_stack(x, table, [weights[0], weights[1][:1]], biases)
    with pytest.raises(ValueError, match=r"`x` must have shape \[31, F\], got \[30, 5\]"):
        relational_stack(x[:30], table, weights, biases)
    with pytest.raises(
        ValueError, match=r"`impl` must be one of \['layered', 'reference'\] on this machine, got 'fused'"
    ):
        relational_stack(x, table, weights, biases, impl="fused")
